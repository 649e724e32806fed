//! Crashes at every request, for every adapter.

use headwater_conformance::crash;
use headwater_conformance::lab::Lab;

/// Kills every operation of every adapter at every request.
pub async fn every_adapter_in(lab: &Lab) {
    let adapters: Vec<_> = lab.registry().adapters().map(|adapter| adapter.kind()).collect();
    assert!(!adapters.is_empty());
    for kind in adapters {
        let covered = crash::scenarios::ALL.iter().any(|scenario| scenario.adapter == kind);
        assert!(covered, "the {} adapter has no crash scenario", kind.name());
    }
    let all = crash::run_all(lab).await;
    headwater_conformance::report(crash::table(&all));
}
