//! The check values that other engines got for the same rows.

use std::collections::HashMap;

use crate::profile::Profile;

/// Check values by profile and full row name: `checks.json`, from runs of the other engines.
#[derive(Debug)]
pub struct Expected(HashMap<String, Vec<f64>>);

impl Expected {
    /// Those of a profile.
    ///
    /// # Panics
    /// If `checks.json` is malformed.
    pub fn of(profile: Profile) -> Expected {
        let mut all: HashMap<String, HashMap<String, Vec<f64>>> =
            serde_json::from_str(include_str!("checks.json")).expect("a table of check values");
        Expected(all.remove(profile.name()).unwrap_or_default())
    }

    /// What is wrong with a row's check values, if anything.
    pub fn complaint(&self, name: &str, values: &[f64], tolerance: f64) -> Option<String> {
        let Some(wanted) = self.0.get(name) else {
            return Some(format!("no engine's value for {name} is known"));
        };
        let agree = |(&a, &b): (&f64, &f64)| (a - b).abs() <= (tolerance * a.abs().max(b.abs())).max(1e-12);
        if wanted.len() == values.len() && wanted.iter().zip(values).all(agree) {
            return None;
        }
        Some(format!("got {values:?}, expected {wanted:?} within {tolerance:e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_beyond_the_tolerance_are_complaints() {
        let expected = Expected(HashMap::from([("a.b".to_owned(), vec![100.0, 0.0])]));
        assert_eq!(expected.complaint("a.b", &[100.5, 0.0], 1e-2), None);
        assert!(expected.complaint("a.b", &[102.0, 0.0], 1e-2).is_some());
        assert!(expected.complaint("a.b", &[100.0, 1.0], 0.0).is_some());
        assert!(expected.complaint("a.b", &[100.0], 1e-2).is_some());
        assert!(expected.complaint("a.b", &[f64::NAN, 0.0], 1e-2).is_some());
        assert!(expected.complaint("other", &[1.0], 1e-2).is_some());
    }
}
