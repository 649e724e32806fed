//! Random histories: drawn from a seed, run, checked, and made small where they fail.

mod action;
mod check;
mod client;
mod numbers;
mod resolver;

use std::fmt::Write;

use headwater_conformance::faults::{Passed, Random};

pub(crate) use action::{Shape, Step};
pub(crate) use check::Held;
pub(crate) use client::{Event, POLICY, Setting};
pub(crate) use resolver::Lookup;

use check::check;
use client::{Client, World};

/// A history that ran: everything that happened, and whether it was right.
pub(crate) struct Ran {
    pub(crate) events: Vec<Event>,
    pub(crate) requests: Vec<Vec<Passed>>,
    pub(crate) verdict: Result<Held, String>,
}

/// Runs these steps on one thread whose clock stands still, so that a seed decides everything.
pub(crate) fn run(setting: Setting, shape: &Shape, steps: &[Step], seed: u64) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(setting, seed, shape).await;
        let (mut tasks, mut networks) = (Vec::new(), Vec::new());
        for number in 0..shape.clients() {
            let client = Client::new(world.clone(), number, shape.weather).await;
            networks.push(client.network.clone());
            let own = steps.iter().filter(|step| step.client == number).cloned().collect();
            tasks.push(tokio::spawn(client.run(own)));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let mut requests = Vec::new();
        for network in networks {
            network.heal();
            network.release().await;
            requests.push(network.passed());
        }
        let mut verdict = check(&world, steps).await;
        if let Ok(held) = &mut verdict {
            held.requests = requests.iter().map(Vec::len).sum();
            held.faults = requests.iter().flatten().filter(|passed| passed.fault.is_some()).count();
        }
        Ran { events: world.events(), requests, verdict }
    })
}

/// Fewer and fewer steps, as long as what they come to is wrong.
pub(crate) fn minimize(setting: impl Fn() -> Setting, shape: &Shape, steps: &[Step], seed: u64) -> Vec<Step> {
    let mut steps = steps.to_vec();
    let (mut chunk, mut left) = (steps.len() / 2, 400);
    while chunk > 0 {
        let mut at = 0;
        while at < steps.len() && left > 0 {
            left -= 1;
            let fewer = [&steps[..at], &steps[(at + chunk).min(steps.len())..]].concat();
            if run(setting(), shape, &fewer, seed).verdict.is_err() {
                steps = fewer;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    steps
}

/// What a failing history is shown as.
pub(crate) fn render(ran: &Ran, steps: &[Step], seed: u64) -> String {
    let mut text = format!("seed {seed}: {}\n", ran.verdict.as_ref().err().map_or("no anomaly", String::as_str));
    for step in steps {
        writeln!(text, "  {step:?}").unwrap();
    }
    let mut events = ran.events.clone();
    events.sort_by_key(|event| event.invoked);
    for event in events {
        writeln!(text, "  {event:?}").unwrap();
    }
    for (client, requests) in ran.requests.iter().enumerate() {
        let faults = requests.iter().enumerate().filter_map(|(at, passed)| Some((at, passed.verb, passed.fault?)));
        writeln!(text, "  faults of client {client}: {:?}", faults.collect::<Vec<_>>()).unwrap();
    }
    text
}

/// The steps of a seed.
pub(crate) fn drawn(shape: &Shape, seed: u64) -> Vec<Step> {
    shape.steps(&mut Random::fork(seed, u64::MAX))
}
