//! A tape of decisions: what is random in a history comes from it, so that a failing history
//! shrinks to a short one.

#[derive(Debug, Clone)]
pub struct Tape {
    bytes: Vec<u8>,
    at: usize,
}

impl Tape {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// A number below `bound`; 0 for ever once the tape is at its end.
    pub fn below(&mut self, bound: u8) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte % bound
    }

    /// True once in `odds` times.
    pub fn rarely(&mut self, odds: u8) -> bool {
        self.below(odds) == odds - 1
    }

    pub fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }
}
