//! A forger, or a tool with a bug: after a change, every digest is made right again, up to the head.

use std::collections::BTreeMap;

use bytes::Bytes;
use headwater_core::json::sha256;
use serde_json::json;

use crate::image::{Image, Place};
use crate::json::Json;

/// Puts `json` in a place and recomputes every digest that covers it: its own, those of the pointers and pins that lead to it, theirs in
/// turn. Counts and everything else stay as they are.
pub(crate) fn forge(image: &Image, place: &Place, mut json: Json) -> BTreeMap<Place, Bytes> {
    let mut changed: BTreeMap<Place, Bytes> = BTreeMap::new();
    reseal(&mut json);
    // Pointers lead from younger objects to older ones, and from ranks to lower ones: in this order, each object is done once.
    let mut waiting = BTreeMap::from([((rank(place), place), json)]);
    while let Some(((_, place), json)) = waiting.pop_first() {
        let bytes = Bytes::from(json.bytes());
        assert!(changed.insert(place.clone(), bytes.clone()).is_none(), "{place:?} leads to itself");
        for (other, original) in image.0.iter().filter(|(other, _)| *other != place && rank(other) < DATA_FILE) {
            let at = (rank(other), other);
            let changed_before = waiting.remove(&at);
            let pending = changed_before.is_some();
            if !pending && !may_point(original, place) {
                continue;
            }
            let mut pointing = changed_before.unwrap_or_else(|| Json::parse(original).unwrap());
            if repoint(&mut pointing, place, &bytes) || pending {
                reseal(&mut pointing);
                waiting.insert(at, pointing);
            }
        }
    }
    changed
}

const DATA_FILE: usize = 9;

fn rank(place: &Place) -> usize {
    let order = ["version object", "tombstone link", "entry body", "segment", "head", "catalog record"];
    order.iter().position(|kind| *kind == place.kind()).unwrap_or(DATA_FILE)
}

/// The name by which others know a place: a segment by its identifier, which ends its key in small letters.
fn name(place: &Place) -> String {
    match place {
        Place::Record(key) if place.kind() == "segment" => key.as_str().rsplit('/').next().unwrap_or_default().to_uppercase(),
        Place::Record(key) => key.to_string(),
        Place::Object(path) => path.clone(),
        Place::Head(branch) => branch.to_string(),
    }
}

fn may_point(bytes: &[u8], place: &Place) -> bool {
    // Nothing leads to a head or to the catalog record.
    rank(place) < 4 && std::str::from_utf8(bytes).unwrap().contains(&name(place))
}

/// Corrects what leads to a place. Whether anything did.
fn repoint(json: &mut Json, place: &Place, bytes: &[u8]) -> bool {
    let (digest, name) = (sha256(bytes), name(place));
    let is = |value: &Json, field: &str| value.get(field).and_then(Json::as_text) == Some(&name);
    json.visit(&mut |value| match place {
        Place::Record(_) => {
            (is(value, "key") || value.get("number").is_some() && is(value, "id")) && value.set("digest", Json::text(&digest))
        }
        Place::Object(_) if is(value, "path") => {
            value.set("size", Json::Number((bytes.len() as u64).into())) | value.set("id", Json::text(format!("sha256:{digest}")))
        }
        Place::Object(_) | Place::Head(_) => false,
    })
}

/// Makes an object's own digests right: those of its live table heads, and the one over all of it.
fn reseal(json: &mut Json) {
    json.visit(&mut |value| {
        let Some(Json::List(heads)) = value.get("heads") else { return false };
        let field = |head: &Json, name: &str| head.get(name).map_or(json!(null), |value| serde_json::to_value(value).unwrap());
        let schema = |head| json!([field(head, "table_id"), field(head, "incarnation_id"), field(head, "key"), field(head, "schema_hash")]);
        let schema: Vec<_> = heads.iter().map(schema).collect();
        let (digest, schema) = (sha256(&Json::List(heads.clone()).bytes()), sha256(&serde_json::to_vec(&schema).unwrap()));
        value.set("digest", Json::text(digest)) | value.set("schema", Json::text(schema))
    });
    if json.get("digest").is_some() && json.get("format").is_some() {
        json.set("digest", Json::text(""));
        let digest = sha256(&json.bytes());
        json.set("digest", Json::text(digest));
    }
}
