//! Closes at once, of which the first ones may fail, and rows that come meanwhile.

use headwater_conformance::faults::{Fault, Planned};
use headwater_core::ErrorKind;

use super::super::place::{TABLES, batch};
use super::{CUT, History, told, turns};
use crate::writer::Closed;

impl History {
    /// A writer that was drained has published every row it took in, and takes none; one that was not goes on.
    pub(super) async fn two_close(&mut self) {
        self.release().await;
        self.settle().await;
        if self.random.chance(500) {
            // So that the closes find few tables with rows, and other tables' rows come behind them.
            let published = self.writer.publish(&TABLES).await;
            self.after_publish(&TABLES, published).await;
            self.settle().await;
            self.append().await;
        }
        if self.random.chance(800) {
            // Enough of them for one close, or for both.
            let requests = *self.random.pick(&[1, 2, 3, 4, 6, 8, 12, CUT]);
            // Each takes a while, so that the other begins, and rows come, before it ends.
            let faults = [("PUT", 0, Fault::Delayed(20)), ("PUT", 1, Fault::RequestsLost(requests)), ("SWAP head", 0, Fault::Delayed(40))];
            self.network.plan(&faults.map(|(verb, nth, fault)| Planned { verb, nth, fault }));
        }
        let closes = [(); 2].map(|()| {
            let writer = self.writer.clone();
            tokio::spawn(async move { writer.close().await })
        });
        while closes.iter().any(|close| !close.is_finished()) {
            turns(self.random.below(4) as usize).await;
            let (key, numbers) = (self.table(), self.fresh(3));
            let rows = batch(&numbers);
            self.largest = self.largest.max(rows.get_array_memory_size() as u64);
            let mut append = std::pin::pin!(self.writer.append(key, rows));
            let appended = tokio::select! { biased; done = &mut append => Some(done), () = turns(5) => None };
            match appended {
                Some(Ok(())) => self.tables.get_mut(key).unwrap().own.extend(numbers),
                // The writer is closed, or a failed flush is told.
                Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => {}
                Some(Err(error)) => told(&error),
                // It gives up while it waits for room.
                None => {}
            }
        }
        let mut drained = false;
        for close in closes {
            match close.await.unwrap() {
                Closed::Drained(_) => drained = true,
                Closed::Left { error, .. } => told(&error),
            }
        }
        self.network.heal();
        if !drained {
            self.counts.note("close failed while rows came");
        }
        if !drained && self.writer.unsettled().is_none() {
            assert_eq!(self.place.published().await, self.with(|_, _| 0), "a close that failed published something");
            return;
        }
        // Where that is unknown, the next close settles it.
        while !drained {
            match self.writer.close().await {
                Closed::Drained(_) => drained = true,
                Closed::Left { error, .. } => told(&error),
            }
        }
        let now = self.place.published().await;
        self.counts.note("closed while rows came");
        assert_eq!(now, self.with(|_, table| table.own.len()), "the writer has ended, and not every row it took in is published");
        assert!(self.writer.waiting().is_empty());
        assert_eq!(self.writer.append("a", batch(&[0])).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        self.forget(|_, table| table.own.len());
        self.push(now);
        (self.writer, self.network) = self.place.start(self.bug).await;
        for table in self.tables.values_mut() {
            table.shown = table.states.len() - 1;
        }
    }

    /// Nothing is unknown any more.
    async fn settle(&mut self) {
        while self.limbo.is_some() {
            let published = self.writer.publish(&TABLES).await;
            self.after_publish(&TABLES, published).await;
        }
    }
}
