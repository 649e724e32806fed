pub(crate) const TURNS: usize = 8;
