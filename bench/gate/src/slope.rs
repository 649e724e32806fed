//! The slope of a whole curve, so that neither end decides.

/// A robust line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// Theil and Sen's estimate: the median of the slopes between all pairs.
    pub slope: f64,
    /// The least of those slopes.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Slope {
    /// Through these points; `None` with fewer than two different places. With as few points as a curve has here, no narrower interval holds at
    /// 95 %, whatever the noise: it spans the slopes of all pairs.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let pairs = points.iter().enumerate().flat_map(|(i, one)| points[i + 1..].iter().map(move |other| (one, other)));
        let mut slopes: Vec<f64> =
            pairs.filter(|(one, other)| one.0 != other.0).map(|(one, other)| (other.1 - one.1) / (other.0 - one.0)).collect();
        slopes.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*slopes.first()?, *slopes.last()?);
        let middle = slopes.len() / 2;
        let slope = if slopes.len() % 2 == 1 { slopes[middle] } else { (slopes[middle - 1] + slopes[middle]) / 2.0 };
        Some(Self { slope, low, high })
    }

    /// Whether a curve without growth is among what the points allow.
    pub fn may_be_flat(&self) -> bool {
        self.low <= 0.0
    }

    /// Whether the curve grows between any two of its points.
    pub fn grows_everywhere(&self) -> bool {
        self.low > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(values: [f64; 4]) -> Slope {
        Slope::of(&[(20.0, values[0]), (80.0, values[1]), (320.0, values[2]), (1280.0, values[3])]).unwrap()
    }

    #[test]
    fn a_flat_curve_has_no_slope_at_all() {
        assert_eq!(through([2.0; 4]), Slope { slope: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn a_line_has_its_slope_everywhere() {
        let slope = through([40.0, 160.0, 640.0, 2560.0]);
        assert_eq!((slope.slope, slope.low, slope.high), (2.0, 2.0, 2.0));
        assert!(slope.grows_everywhere() && !slope.may_be_flat());
    }

    #[test]
    fn one_outlier_moves_the_interval_and_not_the_slope() {
        let slope = Slope::of(&[(1.0, 5.0), (2.0, 5.0), (3.0, 90.0), (4.0, 5.0), (5.0, 5.0)]).unwrap();
        assert!(slope.slope == 0.0 && slope.low < 0.0 && slope.high > 0.0 && slope.may_be_flat());
    }

    #[test]
    fn fewer_than_two_places_have_none() {
        assert_eq!(Slope::of(&[(1.0, 5.0), (1.0, 6.0)]), None);
    }
}
