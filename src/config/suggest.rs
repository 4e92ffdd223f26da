//! "Did you mean": finds the known word that is closest to a misspelled word.

/// The closest known word, if it is close enough.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 4);
    let score = |name: &str| strsim::damerau_levenshtein(word, name);
    known
        .map(|name| (score(&name.replace('-', "_")).min(score(name)), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}
