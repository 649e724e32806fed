//! Damage, drawn from a seed: one field of valid JSON changed, removed or doubled; or bytes flipped, cut, added, gone, or another object's.

use serde_json::Number;

use crate::json::Json;

/// Random numbers that a seed determines (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, case: u64) -> Self {
        let mut dice = Self(seed ^ case.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Damages bytes. `others` are bytes of other objects. Returns what was done.
pub(crate) fn mutate_bytes(dice: &mut Dice, bytes: &[u8], others: &[&[u8]]) -> (Vec<u8>, String) {
    let mut out = bytes.to_vec();
    let what = match dice.below(5) {
        0 => {
            let flips = 1 + dice.below(4);
            let places: Vec<usize> = (0..flips).map(|_| dice.below(out.len())).collect();
            places.iter().for_each(|place| out[*place] ^= 1 << dice.below(8));
            format!("bits flipped at {places:?}")
        }
        1 => {
            out.truncate(dice.below(bytes.len()));
            format!("cut to {} bytes", out.len())
        }
        2 => {
            let added = 1 + dice.below(40);
            let kind = dice.below(3);
            out.extend((0..added).map(|i| match kind {
                0 => b' ',
                1 => bytes[i % bytes.len()],
                _ => dice.next() as u8,
            }));
            format!("{added} bytes added")
        }
        // Rarely: there is one such case for each object.
        3 if dice.below(8) == 0 => {
            out.clear();
            "emptied".to_owned()
        }
        _ => {
            let other = dice.below(others.len());
            out = others[other].to_vec();
            format!("replaced by the bytes of object {other}")
        }
    };
    (out, what)
}

/// Changes, removes or doubles one field or list item anywhere. Returns what was done.
pub(crate) fn mutate_json(dice: &mut Dice, json: &mut Json) -> String {
    let donor = json.clone();
    let mut path = String::new();
    let what = mutate_below(dice, json, &donor, &mut path);
    format!("{path}: {what}")
}

fn mutate_below(dice: &mut Dice, json: &mut Json, donor: &Json, path: &mut String) -> &'static str {
    let children = match json {
        Json::List(items) => items.len(),
        Json::Object(fields) => fields.len(),
        _ => 0,
    };
    if children == 0 {
        return change(dice, json, donor);
    }
    let child = dice.below(children);
    let deeper = match json {
        Json::List(items) => {
            path.push_str(&format!("/{child}"));
            &mut items[child]
        }
        Json::Object(fields) => {
            path.push_str(&format!("/{}", fields[child].0));
            &mut fields[child].1
        }
        _ => return "nothing",
    };
    if matches!(deeper, Json::List(_) | Json::Object(_)) && dice.below(4) > 0 {
        return mutate_below(dice, deeper, donor, path);
    }
    match dice.below(4) {
        0 => {
            remove(json, child);
            "removed"
        }
        1 => {
            double(dice, json, child, donor);
            "doubled"
        }
        _ => change(dice, deeper, donor),
    }
}

fn remove(json: &mut Json, child: usize) {
    match json {
        Json::List(items) => drop(items.remove(child)),
        Json::Object(fields) => drop(fields.remove(child)),
        _ => {}
    }
}

/// Puts a copy, as it is or changed, somewhere among its like.
fn double(dice: &mut Dice, json: &mut Json, child: usize, donor: &Json) {
    match json {
        Json::List(items) => {
            let (copy, place) = (items[child].clone(), dice.below(items.len() + 1));
            items.insert(place, copy);
        }
        Json::Object(fields) => {
            let (mut copy, place) = (fields[child].clone(), dice.below(fields.len() + 1));
            if dice.below(2) == 0 {
                change(dice, &mut copy.1, donor);
            }
            fields.insert(place, copy);
        }
        _ => {}
    }
}

fn change(dice: &mut Dice, json: &mut Json, donor: &Json) -> &'static str {
    match json {
        Json::Number(number) => {
            let was = number.as_u64().unwrap_or_default();
            let new: Number = match dice.below(9) {
                0 => 0.into(),
                1 => was.wrapping_add(1).into(),
                2 => was.wrapping_sub(1).into(),
                3 => u64::MAX.into(),
                4 => (u64::MAX - 1).into(),
                5 => (1_u64 << 53).into(),
                6 => (-1).into(),
                7 => Number::from_f64(0.5).unwrap(),
                _ => dice.next().into(),
            };
            *json = if dice.below(8) == 0 { Json::text(new.to_string()) } else { Json::Number(new) };
            "a number changed"
        }
        Json::Text(text) => {
            let mut chars: Vec<char> = text.chars().collect();
            match dice.below(6) {
                0 => chars.clear(),
                1 if !chars.is_empty() => {
                    let place = dice.below(chars.len());
                    chars[place] = *dice.pick(&['0', '1', 'a', 'f', 'Z', '/', '.', '%', ' ', '\u{e9}', '\0']);
                }
                2 => chars.push('0'),
                3 => drop(chars.pop()),
                4 => {
                    *json = scalar(dice);
                    return "text became something else";
                }
                _ => {
                    let mut texts = Vec::new();
                    donor.clone().visit(&mut |value| {
                        texts.extend(value.as_text().map(str::to_owned));
                        false
                    });
                    chars = dice.pick(&texts).chars().collect();
                }
            }
            *json = Json::Text(chars.into_iter().collect());
            "a text changed"
        }
        Json::List(items) if items.len() > 1 && dice.below(2) == 0 => {
            let (one, other) = (dice.below(items.len()), dice.below(items.len()));
            items.swap(one, other);
            "two items exchanged"
        }
        Json::Object(fields) if !fields.is_empty() && dice.below(2) == 0 => {
            let place = dice.below(fields.len());
            fields[place].0.push('_');
            "a field renamed"
        }
        other => {
            *other = scalar(dice);
            "replaced"
        }
    }
}

fn scalar(dice: &mut Dice) -> Json {
    match dice.below(6) {
        0 => Json::Null,
        1 => Json::Bool(true),
        2 => Json::Number(7.into()),
        3 => Json::text("x"),
        4 => Json::List(Vec::new()),
        _ => Json::Object(Vec::new()),
    }
}
