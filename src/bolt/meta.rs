//! The meta page of bbolt's file format: where the tree begins, and how many pages the file has.
//!
//! Source: `meta` in bbolt's `internal/common/meta.go` (1.3 to 1.5), little-endian as on every platform that
//! etcd supports. A file begins with two meta pages, each with a checksum (FNV-1a). The newer valid one
//! counts.

/// Bytes of a page's header, which precedes the meta.
pub(crate) const HEAD: usize = 16;
/// The version that bbolt writes.
pub(crate) const VERSION: u32 = 2;
const MAGIC: u32 = 0xed0c_daed;
/// Bytes that the checksum covers: from the magic number up to the checksum itself.
const SUMMED: usize = 56;
/// The file stores no freelist: bbolt rebuilds it with a scan, as it does for etcd's databases anyway.
const NO_FREELIST: u64 = u64::MAX;

/// The content of a meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The version of the file format: [`VERSION`].
    pub(crate) version: u32,
    /// The page size in bytes.
    pub(crate) page_size: u32,
    /// The page at which the tree begins.
    pub(crate) root: u64,
    /// The sequence number of the root bucket.
    pub(crate) sequence: u64,
    /// The first page number that is not used yet.
    pub(crate) high: u64,
    /// The transaction that wrote this page.
    pub(crate) txid: u64,
}

impl Meta {
    /// Reads a page; `None` if the magic number or the checksum is wrong. The version and the page's flags
    /// are not checked.
    pub(crate) fn read(page: &[u8]) -> Option<Self> {
        let meta = page.get(HEAD..)?;
        let quarter = |at: usize| Some(u32::from_le_bytes(*meta.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u64::from_le_bytes(*meta.get(at..)?.first_chunk()?));
        let valid = quarter(0)? == MAGIC && fnv1a(meta.get(..SUMMED)?) == word(SUMMED)?;
        valid.then_some(Self {
            version: quarter(4)?,
            page_size: quarter(8)?,
            root: word(16)?,
            sequence: word(24)?,
            high: word(40)?,
            txid: word(48)?,
        })
    }

    /// The bytes of a page after its header.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [MAGIC, self.version, self.page_size, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.root, self.sequence, NO_FREELIST, self.high, self.txid] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let sum = fnv1a(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The minimum size of the file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.high.saturating_mul(self.page_size.into())
    }
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
