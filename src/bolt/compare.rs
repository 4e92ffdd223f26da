//! Compares what clients have stored in two databases of etcd, bucket by bucket and element by element.

use std::collections::VecDeque;
use std::fs::File;

use super::Bolt;
use super::page::{Child, Item};
use super::read::{Bucket, Reader, bucket};

/// The buckets with what clients store: revisions of keys, leases, users and roles, alarms. The other buckets
/// describe the member and the cluster, and a restore writes them anew. Source: `server/storage/schema` of
/// etcd 3.6.
const BUCKETS: [&str; 6] = ["key", "lease", "auth", "authUsers", "authRoles", "alarm"];

/// The first difference between two databases, in words without any value; `None` if there is none. Reads both
/// completely, one page at a time.
///
/// # Errors
/// If a file cannot be read or is damaged.
pub(crate) fn difference(one: &File, other: &File) -> Bolt<Option<String>> {
    let (one, other) = (Reader::open(one)?, Reader::open(other)?);
    let (buckets, others) = (one.buckets()?, other.buckets()?);
    for name in BUCKETS {
        let (mut left, mut right) = (
            Items::of(&one, &buckets, name)?,
            Items::of(&other, &others, name)?,
        );
        let mut count = 0_u64;
        loop {
            let pair = (left.next()?, right.next()?);
            let (found, expected) = match &pair {
                (None, None) => break,
                (Some(one), Some(other)) if one == other => {
                    count += 1;
                    continue;
                }
                (Some(one), Some(other)) if one.key == other.key => {
                    return Ok(Some(format!(
                        "in the bucket {name}, the values of element {} differ",
                        shown(name, one)
                    )));
                }
                (one, other) => (one.as_ref(), other.as_ref()),
            };
            let in_words =
                |item: Option<&Item>| item.map_or_else(|| "nothing".to_owned(), |i| shown(name, i));
            return Ok(Some(format!(
                "in the bucket {name}, after {count} equal elements one has {} and the other {}",
                in_words(found),
                in_words(expected)
            )));
        }
    }
    Ok(None)
}

/// The name of an element: a revision, or what etcd calls it. A lease, a user or a role has no secret in it.
fn shown(bucket: &str, item: &Item) -> String {
    let number = |at: usize| {
        let bytes = item.key.get(at..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    };
    match (bucket, number(0), number(9)) {
        ("key", Some(main), Some(sub)) => format!("revision {main}.{sub}"),
        ("lease", Some(id), _) => format!("{id:x}"),
        _ => format!("{:?}", String::from_utf8_lossy(&item.key)),
    }
}

/// The elements of a bucket in order; none if the database lacks the bucket.
struct Items<'a> {
    reader: &'a Reader<'a>,
    pages: VecDeque<Child>,
    read: VecDeque<Item>,
}

impl<'a> Items<'a> {
    fn of(reader: &'a Reader<'a>, buckets: &[Item], name: &str) -> Bolt<Self> {
        let found = buckets.iter().find(|item| item.key == name.as_bytes());
        let (pages, items) = match found.map(bucket).transpose()? {
            None => (Vec::new(), Vec::new()),
            Some(Bucket::Tree { root, .. }) => (reader.leaves(root)?, Vec::new()),
            Some(Bucket::Inline { items, .. }) => (Vec::new(), items),
        };
        Ok(Self {
            reader,
            pages: pages.into(),
            read: items.into(),
        })
    }

    fn next(&mut self) -> Bolt<Option<Item>> {
        while self.read.is_empty() {
            let Some(leaf) = self.pages.pop_front() else {
                return Ok(None);
            };
            self.read = self.reader.leaf(leaf.page)?.into();
        }
        Ok(self.read.pop_front())
    }
}
