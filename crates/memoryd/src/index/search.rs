//! Searching the index: which passages fit, and in which order they are given.
//!
//! A passage's score is its relevance times its recency. Relevance is BM25 over the words of the query
//! that are not too common; recency is (1 + 2^(−age / [`HALF_LIFE_DAYS`])) / 2, from 1 for what was
//! said just now down to a half: an old passage that fits well stays ahead of a new one that hardly
//! does.

use super::error::IndexError;
use super::intake::{Open, Source};
use super::query::{any_of, terms};

use bxcore::id::{EntryId, TurnId};
use bxcore::label::Label;
use bxcore::text::cap;
use bxcore::wire::memoryd::{
    DEFAULT_HITS, Hit, HitSource, MAX_HITS, MAX_QUERY_BYTES, RecallRequest,
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use std::collections::HashSet;

/// After how many days half of what recency can take away is gone.
pub const HALF_LIFE_DAYS: f64 = 30.0;
/// How many passages are compared by recency, the most relevant first.
pub const MAX_CANDIDATES: usize = 200;
/// The longest snippet, in bytes.
pub const MAX_SNIPPET_BYTES: usize = 600;
/// How many words a snippet has.
const SNIPPET_WORDS: u32 = 48;
/// A word that is in more passages than this says little, and is not looked for beside others.
const COMMON_PASSAGES: u32 = 4_000;
/// How many passages are scored, the ones that were taken in last first.
const MAX_SCORED: u32 = 20_000;
const SECS_A_DAY: f64 = 86_400.0;

/// A passage that fits, before its snippet is made.
struct Candidate {
    id: i64,
    source: HitSource,
    who: String,
    time: String,
    label: Label,
    score: f64,
}

impl Open {
    /// The passages that fit a query, the best first.
    pub(super) fn search(
        &self,
        request: &RecallRequest,
        now: Timestamp,
    ) -> Result<Vec<Hit>, IndexError> {
        let terms = self.telling(terms(cap(&request.query, MAX_QUERY_BYTES)))?;
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let query = any_of(&terms);
        let limit = request.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let mut candidates = self.candidates(&query, request, now)?;
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.id.cmp(&a.id)));
        let mut seen = HashSet::new();
        let mut hits = Vec::new();
        for candidate in candidates {
            if hits.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
                break;
            }
            let snippet = self.snippet(&query, candidate.id)?;
            // The same question asked every day needs to be found once.
            if seen.insert(snippet.clone()) {
                hits.push(candidate.hit(snippet));
            }
        }
        Ok(hits)
    }

    /// The words that tell something: all but the common ones, unless there are no others.
    fn telling(&self, terms: Vec<String>) -> Result<Vec<String>, IndexError> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)";
        let mut count = self.database.db.prepare_cached(sql)?;
        let mut telling = Vec::new();
        for term in &terms {
            let found: u32 = count.query_row(params![term, COMMON_PASSAGES], |row| row.get(0))?;
            if (1..COMMON_PASSAGES).contains(&found) {
                telling.push(term.clone());
            }
        }
        Ok(if telling.is_empty() { terms } else { telling })
    }

    fn candidates(
        &self,
        query: &str,
        request: &RecallRequest,
        now: Timestamp,
    ) -> Result<Vec<Candidate>, IndexError> {
        let sql = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?1
                   ORDER BY rowid DESC LIMIT ?2";
        let mut select = self.database.db.prepare_cached(sql)?;
        let rows = select.query_map(params![query, MAX_SCORED], |row| {
            // The lower the better, there.
            Ok((row.get::<_, i64>(0)?, -row.get::<_, f64>(1)?))
        })?;
        let mut scored = rows.collect::<Result<Vec<_>, _>>()?;
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        let mut candidates = Vec::new();
        for (id, relevance) in scored {
            let Some(candidate) = self.candidate(id, relevance, now)? else {
                continue;
            };
            let own = match (&candidate.source, &request.except) {
                (HitSource::Session { session, .. }, Some(except)) => session == except,
                _ => false,
            };
            if !own {
                candidates.push(candidate);
            }
            if candidates.len() >= MAX_CANDIDATES {
                break;
            }
        }
        Ok(candidates)
    }

    fn candidate(
        &self,
        id: i64,
        relevance: f64,
        now: Timestamp,
    ) -> Result<Option<Candidate>, IndexError> {
        let sql = "SELECT kind, name, place, who, time, class, untrusted
                   FROM passages JOIN sources ON sources.id = passages.source
                   WHERE passages.id = ?1";
        let mut select = self.database.db.prepare_cached(sql)?;
        let found = select.query_row([id], |row| {
            let (kind, name, place): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let class: String = row.get(5)?;
            let time: String = row.get(4)?;
            let source = hit_source(&kind, &name, &place);
            Ok(source.map(|source| Candidate {
                id,
                source,
                who: row.get(3).unwrap_or_default(),
                score: relevance * recency(&time, now),
                time,
                // What can't be read is the worst that it could be.
                label: Label::parse_stored(&class, row.get(6).unwrap_or(-1)),
            }))
        });
        Ok(found.optional()?.flatten())
    }

    fn snippet(&self, query: &str, id: i64) -> Result<String, IndexError> {
        let sql = "SELECT snippet(words, 0, '', '', '…', ?3) FROM words
                   WHERE words MATCH ?1 AND rowid = ?2";
        let mut select = self.database.db.prepare_cached(sql)?;
        let text: Option<String> = select
            .query_row(params![query, id, SNIPPET_WORDS], |row| row.get(0))
            .optional()?;
        let text = text.unwrap_or_default();
        Ok(cap(text.trim(), MAX_SNIPPET_BYTES).to_owned())
    }
}

impl Candidate {
    fn hit(self, snippet: String) -> Hit {
        Hit {
            source: self.source,
            who: self.who,
            time: self.time,
            label: self.label,
            snippet,
            score: self.score,
        }
    }
}

fn hit_source(kind: &str, name: &str, place: &str) -> Option<HitSource> {
    Some(match Source::stored(kind, name)? {
        Source::Memory(file) => HitSource::Memory {
            file,
            id: EntryId::new(place).ok(),
        },
        Source::Session(session) => HitSource::Session {
            session,
            turn: TurnId(place.parse().ok()?),
        },
    })
}

/// From 1 for what was written now, or is dated later, to a half for what is old or has no date.
fn recency(time: &str, now: Timestamp) -> f64 {
    let Ok(time) = time.parse::<Timestamp>() else {
        return 0.5;
    };
    let age_days = now.duration_since(time).as_secs_f64().max(0.0) / SECS_A_DAY;
    f64::midpoint(1.0, (-age_days / HALF_LIFE_DAYS).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recency_halves_at_most() {
        let now: Timestamp = "2026-12-31T00:00:00Z".parse().unwrap();
        for (time, expect) in [
            ("2026-12-31T00:00:00Z", 1.0),
            ("2027-12-31T00:00:00Z", 1.0),
            ("2026-12-01T00:00:00Z", 0.75),
            ("2026-11-01T00:00:00Z", 0.625),
            ("1999-01-01T00:00:00Z", 0.5),
            ("yesterday", 0.5),
        ] {
            let found = recency(time, now);
            assert!((found - expect).abs() < 1e-6, "{time}: {found}");
        }
    }
}
