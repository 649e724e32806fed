//! Seeded randomness, so that a run can be repeated exactly.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::ids::Environment;

/// SplitMix64: every seed, also 0 or two that differ in one bit, gives a sequence of its own.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence that belongs to this one's seed and a number: drawing from one leaves the other as it is.
    pub fn fork(seed: u64, number: u64) -> Self {
        Self(Self(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F)).draw())
    }

    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        (self.draw() % u64::from(bound)) as u32
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u32) as usize]
    }
}

/// Seeded time and randomness for a catalog. The clock goes on by a few milliseconds now and then, and sometimes back.
#[derive(Debug)]
pub struct SeededEnvironment {
    clock: AtomicU64,
    random: Mutex<Random>,
}

impl SeededEnvironment {
    /// The environment of a seed.
    pub fn new(seed: u64) -> Self {
        Self { clock: AtomicU64::new(1_700_000_000_000), random: Mutex::new(Random::new(seed)) }
    }

    fn draw(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }
}

impl Environment for SeededEnvironment {
    fn now_ms(&self) -> u64 {
        match self.draw() % 16 {
            0 => self.clock.fetch_sub(3, Ordering::SeqCst),
            1..6 => self.clock.fetch_add(2, Ordering::SeqCst),
            _ => self.clock.load(Ordering::SeqCst),
        }
    }

    fn random(&self) -> u128 {
        u128::from(self.draw()) << 64 | u128::from(self.draw())
    }
}
