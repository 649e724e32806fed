//! The creation of a catalog. Whoever comes next goes on where one was cut off, so each step may be repeated, also by another process.

use crate::authority::{Create, Expected, Finding, HeadRead, Severity, Swap, Tag};
use crate::catalog::{CatalogRecord, CatalogState, Found, Parts, catalog_key, main_branch};
use crate::error::{Error, ErrorKind, Result};
use crate::head::{FORMAT, Head};
use crate::ids::{CatalogId, Incarnation, Mint};
use crate::json::Sealed;
use crate::locator::{DATA_ELSEWHERE, Owner, check_record};

/// Puts the record of a catalog in creation, and returns what there is then; and whether the place is fit for a creation.
pub(crate) async fn put_record(parts: &Parts, store: &str) -> Result<(Found, Result<()>)> {
    parts.registry.store(store)?;
    let remains = refuse_remains(parts).await;
    let fit = refuse_unfit(parts).await;
    if remains.is_ok() && fit.is_ok() {
        let mint = Mint::new(parts.environment.clone());
        let mut record = CatalogRecord {
            format: FORMAT,
            features: parts.data_root.iter().map(|_| DATA_ELSEWHERE.to_owned()).collect(),
            catalog: CatalogId(mint.ulid()),
            store: store.to_owned(),
            created: mint.now_ms(),
            vacuum: 0,
            state: CatalogState::Creating,
            root: None,
            digest: String::new(),
        };
        if let Create::Unknown(cause) = parts.authority.create_record(&catalog_key(), record.seal()?.into()).await? {
            tracing::debug!(%cause, "the catalog record's create is uncertain");
        }
    }
    // Whatever the answer, the record that is there now is the catalog: ours, or that of a caller who came first, whose branch is then none
    // without a record.
    let Some((bytes, tag)) = parts.authority.read_record(&catalog_key()).await? else {
        remains?;
        fit?;
        return Err(Error::new(ErrorKind::Unavailable, "the catalog record could not be written").during("create catalog"));
    };
    let record = check_record(&bytes, parts.data_root.is_some())?;
    let found = match record.state {
        CatalogState::Creating => Found::Creating(record, tag),
        CatalogState::Live => Found::Headless(record),
    };
    Ok((found, fit))
}

/// Steps, each durable before the next: the locator, where the control is elsewhere; the head of `main`; the record as live, with the
/// locator's root. The last is the commit point of the creation, and decides between several roots.
pub(crate) async fn finish(parts: &Parts, mut record: CatalogRecord, tag: &Tag) -> Result<CatalogRecord> {
    let (mint, main) = (Mint::new(parts.environment.clone()), main_branch()?);
    let claimed = match &parts.data_root {
        Some(root) => Some((root, root.claim(&record, &mint).await?)),
        None => None,
    };
    let mut head = Head::new(record.catalog, main.clone(), Incarnation(mint.ulid()));
    head.rev = 1;
    head.nonce = mint.ulid().to_string();
    let swap = parts.authority.swap_head(&main, Expected::Absent, head.seal()?.into()).await?;
    // Unless this very swap made the head, it must be seen, and so be durable, before the record says that it is there.
    if !matches!(swap, Swap::Swapped(_)) && matches!(parts.authority.read_head(&main, None).await?, HeadRead::Absent) {
        return Err(Error::new(ErrorKind::Unavailable, "the head of main could not be written; try again").during("create catalog"));
    }
    record.state = CatalogState::Live;
    record.root = claimed.as_ref().map(|(root, locator)| root.named(locator));
    let swap = parts.authority.swap_record(&catalog_key(), tag, record.seal()?.into()).await?;
    let Some((root, locator)) = claimed.filter(|_| !matches!(swap, Swap::Swapped(_))) else { return Ok(record) };
    // Perhaps another caller was first, perhaps with another root.
    let record = match parts.authority.read_record(&catalog_key()).await? {
        Some((bytes, _)) => check_record(&bytes, true)?,
        None => return Err(Error::corrupt("catalog record", "it is gone; restore the object")),
    };
    root.check(Some(&record), &Owner::Other(locator))?;
    match record.state {
        CatalogState::Live => Ok(record),
        CatalogState::Creating => {
            Err(Error::new(ErrorKind::Unavailable, "the creation could not be completed; try again").during("create catalog"))
        }
    }
}

/// Refuses a place that no catalog may be created in, nor a creation finished.
pub(crate) async fn refuse_unfit(parts: &Parts) -> Result<()> {
    refuse_foreign(parts).await?;
    refuse_broken(parts).await
}

/// A backend that breaks its promises would lose commits, and nobody would notice.
async fn refuse_broken(parts: &Parts) -> Result<()> {
    let mut findings = parts.authority.probe().await.map_err(|error| error.during("create catalog"))?;
    if let Some(root) = &parts.data_root {
        findings.extend(root.authority.probe().await.map_err(|error| error.during("create catalog"))?);
    }
    match findings.into_iter().find(|finding| finding.severity == Severity::Broken) {
        None => Ok(()),
        Some(Finding { subject, message, .. }) => {
            let problem = format!("the backend breaks a promise that commits stand on: {subject}: {message}; use another store");
            Err(Error::new(ErrorKind::PreconditionIgnored, problem).during("create catalog"))
        }
    }
}

/// Branches without a catalog record are what is left of a catalog.
async fn refuse_remains(parts: &Parts) -> Result<()> {
    if let Some(branch) = parts.authority.list_branches().await?.first() {
        return Err(Error::corrupt(
            "catalog record",
            format!("the branch {branch} is here and the catalog record is missing; restore the object"),
        ));
    }
    Ok(())
}

/// Objects of others under the data root would be taken for ours by a later vacuum.
async fn refuse_foreign(parts: &Parts) -> Result<()> {
    let listed = match parts.objects.list_with_delimiter(None).await {
        Ok(listed) => listed,
        Err(object_store::Error::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(Error::from(error).during("create catalog")),
    };
    let names = listed.common_prefixes.iter().chain(listed.objects.iter().map(|object| &object.location));
    match names.filter_map(|path| path.parts().next()).find(|part| part.as_ref() != "_headwater") {
        None => Ok(()),
        Some(part) => {
            Err(Error::invalid(format!("{:?} is here already and is not part of a catalog; choose an empty place", part.as_ref())))
        }
    }
}
