//! `verify`, `doctor` and `adapters`: whether all is well, and what this build can do.

use headwater::registry::Part;
use headwater::verify::Depth;
use serde_json::json;

use super::args::{Common, Root, Verify};
use super::failure::Failure;
use super::output::{print, style};
use super::render::{Grid, count, visible};

/// Runs `verify`.
pub(crate) async fn verify(args: &Verify, common: &Common) -> Result<(), Failure> {
    let catalog = super::open(&args.root.url, common).await?;
    let report = catalog.verify(if args.data { Depth::Data } else { Depth::Metadata }).await?;
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    if common.json {
        let document = json!({
            "ok": report.ok(),
            "problems": problems,
            "reclaimable": {"objects": report.reclaimable_objects, "bytes": report.reclaimable_bytes},
        });
        print(&format!("{document}\n"))?;
    } else {
        let mut text = String::new();
        for problem in &problems {
            text.push_str(&format!("problem: {}\n", visible(problem)));
        }
        let verdict = if report.ok() { "ok".to_owned() } else { count(problems.len() as u64, "problem") };
        let objects = count(report.reclaimable_objects, "object");
        text.push_str(&format!("{verdict} · {objects} ({}) reclaimable\n", count(report.reclaimable_bytes, "byte")));
        print(&text)?;
    }
    if report.ok() { Ok(()) } else { Err(Failure::Said(1)) }
}

/// Runs `doctor`.
pub(crate) async fn doctor(args: &Root, common: &Common) -> Result<(), Failure> {
    let diagnosis = super::builder(&args.url, common).doctor().await?;
    let (capability, findings) = (diagnosis.capability, &diagnosis.findings);
    let rate = capability.writes_per_second_per_key;
    if common.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|finding| json!({"subject": finding.subject, "severity": finding.severity.name(), "message": finding.message}))
            .collect();
        let document = json!({
            "ok": diagnosis.ok(),
            "capability": {
                "power_safe": capability.power_safe,
                "multi_host": capability.multi_host,
                "list_is_strong": capability.list_is_strong,
                "writes_per_second_per_key": rate,
            },
            "findings": findings,
        });
        print(&format!("{document}\n"))?;
    } else {
        let mut grid = Grid::new(style(), &["severity", "subject", "message"]);
        let mut fact = |subject: &str, holds: bool, yes: &str, no: &str| {
            grid.texts(["fact".into(), subject.into(), if holds { yes } else { no }.into()]);
        };
        fact(
            "power",
            capability.power_safe,
            "acknowledged commits survive loss of power",
            "acknowledged commits may be lost with the power",
        );
        fact("hosts", capability.multi_host, "any number of hosts may write", "only processes of one host may write");
        for finding in findings {
            grid.texts([finding.severity.name().into(), finding.subject.clone(), visible(&finding.message).into_owned()]);
        }
        let mut text = grid.render();
        if let Some(rate) = rate {
            text.push_str(&format!("one branch sustains about {} here\n", count(u64::from(rate), "commit a second")));
        }
        text.push_str(if diagnosis.ok() { "ok\n" } else { "no catalog may live here\n" });
        print(&text)?;
    }
    if diagnosis.ok() { Ok(()) } else { Err(Failure::Said(1)) }
}

/// Runs `adapters`.
pub(crate) fn adapters(common: &Common) -> Result<(), Failure> {
    let registry = headwater::registry()?;
    let (mut authorities, mut stores, mut adapters) = (Vec::new(), Vec::new(), Vec::new());
    let mut grid = Grid::new(style(), &["part", "name", "for", "what"]);
    for registration in registry.parts() {
        let name = registration.name.to_owned();
        match &registration.part {
            Part::Backend(backend) => {
                let schemes: Vec<String> = backend.schemes.iter().map(|scheme| format!("{scheme}://")).collect();
                grid.texts(["authority".into(), name, schemes.join(", "), backend.summary.into()]);
                authorities.push(json!({"kind": registration.name, "schemes": backend.schemes, "summary": backend.summary}));
            }
            Part::Authority(authority) => {
                let schemes: Vec<String> = authority.schemes.iter().map(|scheme| format!("--control {scheme}:PATH")).collect();
                grid.texts(["authority".into(), name, schemes.join(", "), authority.summary.into()]);
                authorities.push(json!({"kind": registration.name, "schemes": authority.schemes, "summary": authority.summary}));
            }
            Part::Store(store) => {
                grid.texts(["store".into(), name.clone(), format!("--store {name}"), store.summary.into()]);
                stores.push(json!({"kind": registration.name, "summary": store.summary}));
            }
            Part::Adapter(adapter) => {
                let (kind, class) = (adapter.kind().name(), adapter.class().name());
                grid.texts(["adapter".into(), name, format!("{kind}, {class}"), adapter.summary().into()]);
                adapters.push(json!({"kind": kind, "class": class, "summary": adapter.summary()}));
            }
        }
    }
    if common.json {
        let missing: Vec<_> = headwater::MISSING.iter().map(|(name, feature)| json!({"name": name, "feature": feature})).collect();
        let document = json!({"authorities": authorities, "stores": stores, "adapters": adapters, "missing": missing});
        return print(&format!("{document}\n"));
    }
    let mut text = grid.render();
    for (name, feature) in headwater::MISSING {
        text.push_str(&format!("missing: {name}; build with --features {feature}\n"));
    }
    print(&text)
}
