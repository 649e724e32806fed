//! The slope of a whole curve, so that neither end decides.

/// How sure an interval is at each of its ends.
const CONFIDENCE: f64 = 0.95;

/// A robust line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// Theil and Sen's estimate: the median of the slopes between all pairs.
    pub slope: f64,
    /// The least slope at 95 %, one end alone, by Kendall's test; none where so few points allow any slope (fewer than 4).
    pub low: Option<f64>,
    /// The greatest.
    pub high: Option<f64>,
}

impl Slope {
    /// Through these points, whose places all differ; `None` with fewer than two.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let pairs = points.iter().enumerate().flat_map(|(i, one)| points[i + 1..].iter().map(move |other| (one, other)));
        let mut slopes: Vec<f64> =
            pairs.filter(|(one, other)| one.0 != other.0).map(|(one, other)| (other.1 - one.1) / (other.0 - one.0)).collect();
        slopes.sort_unstable_by(f64::total_cmp);
        let middle = slopes.len() / 2;
        let slope = if slopes.len() % 2 == 1 { slopes[middle] } else { (slopes.get(middle.checked_sub(1)?)? + slopes[middle]) / 2.0 };
        let outside = allowed(points.len());
        let at = |rank: Option<usize>| rank.and_then(|rank| slopes.get(rank)).copied();
        Some(Self { slope, low: at(outside), high: at(outside.and_then(|outside| slopes.len().checked_sub(outside + 1))) })
    }

    /// Whether the curve grows for certain: a slope of 0 lies below the interval.
    pub fn grows(&self) -> bool {
        self.low.is_some_and(|low| low > 0.0)
    }
}

/// How many pairs out of order still show growth: the greatest number that so many points, if they did not grow, had with a probability of
/// 5 % at most. `None` where not even all pairs in order show it.
fn allowed(points: usize) -> Option<usize> {
    // In how many of all orders so many pairs are out of order, one point after the other put among those before it.
    let mut orders = vec![1.0];
    for behind in 1..points {
        let mut more = vec![0.0; orders.len() + behind];
        for (pairs, ways) in orders.iter().enumerate() {
            more[pairs..=pairs + behind].iter_mut().for_each(|sum| *sum += ways);
        }
        orders = more;
    }
    let all: f64 = orders.iter().sum();
    let mut chance = 0.0;
    let unlikely = |ways: &&f64| {
        chance += **ways / all;
        chance <= 1.0 - CONFIDENCE
    };
    orders.iter().take_while(unlikely).count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(values: &[f64]) -> Slope {
        let line: Vec<(f64, f64)> = [20.0, 80.0, 320.0, 1280.0, 10000.0].into_iter().zip(values.iter().copied()).collect();
        Slope::of(&line).unwrap()
    }

    #[test]
    fn a_flat_curve_has_no_slope_at_all() {
        assert_eq!(through(&[2.0; 4]), Slope { slope: 0.0, low: Some(0.0), high: Some(0.0) });
        assert!(!through(&[2.0; 4]).grows());
    }

    #[test]
    fn a_line_has_its_slope_everywhere() {
        let slope = through(&[40.0, 160.0, 640.0, 2560.0]);
        assert_eq!((slope.slope, slope.low, slope.high), (2.0, Some(2.0), Some(2.0)));
        assert!(slope.grows());
    }

    #[test]
    fn one_outlier_moves_the_interval_and_not_the_slope() {
        let slope = Slope::of(&[(1.0, 5.0), (2.0, 5.0), (3.0, 90.0), (4.0, 5.0), (5.0, 5.0)]).unwrap();
        assert!(slope.slope == 0.0 && slope.low < Some(0.0) && slope.high > Some(0.0) && !slope.grows());
    }

    #[test]
    fn one_pair_out_of_order_among_five_points_hides_no_growth() {
        assert!(through(&[1.0, 3.0, 2.0, 4.0, 5.0]).grows());
        assert!(!through(&[1.0, 3.0, 2.0, 5.0, 4.0]).grows());
        assert!(!through(&[1.0, 3.0, 2.0, 4.0]).grows());
    }

    #[test]
    fn three_points_are_too_few_to_be_sure() {
        assert_eq!((allowed(2), allowed(3), allowed(4), allowed(5)), (None, None, Some(0), Some(1)));
        assert!(!through(&[1.0, 2.0, 3.0]).grows());
    }

    #[test]
    fn fewer_than_two_places_have_none() {
        assert_eq!(Slope::of(&[(1.0, 5.0), (1.0, 6.0)]), None);
    }
}
