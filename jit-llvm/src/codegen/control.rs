//! Loops and branches. With a uniform condition they are ordinary branches; with a varying one, every block runs
//! under the mask of the lanes that take it, and is skipped when there is none.
//!
//! What a skipped block would have given is 0, never `poison`: masks are made from values of all lanes, and a
//! branch on a mask with one poisoned lane, even an inactive one, would have no meaning.

use jit_core::error::Error;
use jit_core::ir::{Block, Inst, Value};

use super::Gen;
use super::emit::{Form, Val, form};

impl<'c> Gen<'c, '_> {
    pub(super) fn run_loop(&mut self, inst: &Inst) -> Result<(), Error> {
        let (condition, body) = (&inst.blocks[0], &inst.blocks[1]);
        let outer = self.lanes.active;
        let diverges = self.forms[condition.yields[0].index()] == Form::Varying;
        let params = self.scalars(&condition.params);
        let init: Vec<Val<'c>> = self
            .scalars(&inst.args)
            .into_iter()
            .zip(&params)
            .map(|(a, &p)| self.e.shaped(self.get(a), self.forms[p.index()]))
            .collect();
        self.move_locals(&inst.args, &condition.params);
        let entering = self.mask_or_all(outer);

        let before = self.e.here();
        let (head, turn, done) = (self.e.block("loop"), self.e.block("loop.body"), self.e.block("loop.done"));
        self.e.jump(head);
        self.e.continue_at(head);
        let state: Vec<_> = init.iter().map(|v| self.e.phi(v.get_type())).collect();
        for ((phi, value), &param) in state.iter().zip(&init).zip(&params) {
            phi.add_incoming(&[(value, before)]);
            self.set(param, phi.as_basic_value());
        }
        let running = diverges.then(|| {
            let phi = self.e.phi(entering.get_type());
            phi.add_incoming(&[(&entering, before)]);
            phi
        });
        if let Some(running) = running {
            self.lanes.active = Some(running.as_basic_value());
        }
        self.block(condition)?;
        let mut goes_on = self.get(condition.yields[0]);
        if let Some(running) = running {
            goes_on = self.e.and(goes_on, running.as_basic_value());
            self.lanes.active = Some(goes_on);
        }
        self.e.branch(self.e.any(goes_on), turn, done);

        self.e.continue_at(turn);
        self.block(body)?;
        self.move_locals(&body.yields, &condition.params);
        let next: Vec<Val<'c>> = self
            .scalars(&body.yields)
            .into_iter()
            .zip(&state)
            .zip(&params)
            .map(|((y, phi), &param)| {
                let shape = self.forms[param.index()];
                let value = self.e.shaped(self.get(y), shape);
                // Lanes that are done keep their state.
                if diverges { self.e.select(goes_on, value, phi.as_basic_value()) } else { value }
            })
            .collect();
        let latch = self.e.here();
        for (phi, value) in state.iter().zip(&next) {
            phi.add_incoming(&[(value, latch)]);
        }
        if let Some(running) = running {
            running.add_incoming(&[(&goes_on, latch)]);
        }
        self.e.jump(head);

        self.e.continue_at(done);
        self.lanes.active = outer;
        for (result, phi) in self.scalars(&inst.results).into_iter().zip(&state) {
            self.set(result, phi.as_basic_value());
        }
        Ok(())
    }

    pub(super) fn run_if(&mut self, inst: &Inst) -> Result<(), Error> {
        let condition = self.get(inst.args[0]);
        let results = match form(condition) {
            Form::Uniform => self.choose(inst, condition)?,
            Form::Varying => {
                let then = self.under(condition, &inst.blocks[0], &inst.results)?;
                let otherwise = self.under(self.e.not(condition), &inst.blocks[1], &inst.results)?;
                let chosen = then.into_iter().zip(otherwise);
                chosen.map(|(yes, no)| self.e.select(condition, yes, no)).collect()
            }
        };
        for (result, value) in self.scalars(&inst.results).into_iter().zip(results) {
            self.set(result, value);
        }
        Ok(())
    }

    /// One of two blocks, for all lanes.
    fn choose(&mut self, inst: &Inst, condition: Val<'c>) -> Result<Vec<Val<'c>>, Error> {
        let (yes, no, done) = (self.e.block("then"), self.e.block("else"), self.e.block("chosen"));
        self.e.branch(condition.into_int_value(), yes, no);
        self.e.continue_at(yes);
        let then = self.yields(&inst.blocks[0], &inst.results)?;
        let then_end = self.e.here();
        self.e.jump(done);
        self.e.continue_at(no);
        let otherwise = self.yields(&inst.blocks[1], &inst.results)?;
        let otherwise_end = self.e.here();
        self.e.jump(done);
        self.e.continue_at(done);
        let both = then.into_iter().zip(otherwise);
        Ok(both.map(|(a, b)| self.e.merge(&[(a, then_end), (b, otherwise_end)])).collect())
    }

    /// A block for the active lanes of a mask; zeros if there is none.
    fn under(&mut self, mask: Val<'c>, block: &Block, results: &[Value]) -> Result<Vec<Val<'c>>, Error> {
        if block.insts.is_empty() && self.places.moves(&block.yields, results).is_empty() {
            return self.yields(block, results);
        }
        let outer = self.lanes.active;
        let active = self.both(outer, Some(mask)).unwrap_or(mask);
        let before = self.e.here();
        let (taken, done) = (self.e.block("taken"), self.e.block("skipped"));
        self.e.branch(self.e.any(active), taken, done);
        self.e.continue_at(taken);
        self.lanes.active = Some(active);
        let values = self.yields(block, results)?;
        self.lanes.active = outer;
        let end = self.e.here();
        self.e.jump(done);
        self.e.continue_at(done);
        let merged =
            values.into_iter().map(|v| self.e.merge(&[(v.get_type().const_zero(), before), (v, end)]));
        Ok(merged.collect())
    }

    /// Runs a block: what it yields in the form of the results. Local arrays among them are moved to theirs.
    pub(super) fn yields(&mut self, block: &Block, results: &[Value]) -> Result<Vec<Val<'c>>, Error> {
        self.block(block)?;
        self.move_locals(&block.yields, results);
        let pairs = self.scalars(&block.yields).into_iter().zip(self.scalars(results));
        Ok(pairs.map(|(y, r)| self.e.shaped(self.get(y), self.forms[r.index()])).collect())
    }

    pub(super) fn run_if_any(&mut self, inst: &Inst) -> Result<(), Error> {
        let condition = self.get(inst.args[0]);
        let shapes: Vec<Form> = inst.results.iter().map(|r| self.forms[r.index()]).collect();
        let fallback: Vec<Val<'c>> = inst.args[1..]
            .iter()
            .zip(&shapes)
            .map(|(&f, &shape)| self.e.shaped(self.get(f), shape))
            .collect();
        let outer = self.lanes.active;
        let active = match form(condition) {
            Form::Uniform => condition,
            Form::Varying => self.both(outer, Some(condition)).unwrap_or(condition),
        };
        let before = self.e.here();
        let (needed, done) = (self.e.block("needed"), self.e.block("not.needed"));
        self.e.branch(self.e.any(active), needed, done);
        self.e.continue_at(needed);
        if form(condition) == Form::Varying {
            self.lanes.active = Some(active);
        }
        let values = self.yields(&inst.blocks[0], &inst.results)?;
        self.lanes.active = outer;
        let values: Vec<Val<'c>> = match form(condition) {
            Form::Uniform => values,
            Form::Varying => {
                values.iter().zip(&fallback).map(|(&v, &f)| self.e.select(condition, v, f)).collect()
            }
        };
        let end = self.e.here();
        self.e.jump(done);
        self.e.continue_at(done);
        for ((&result, value), fallback) in inst.results.iter().zip(values).zip(fallback) {
            let merged = self.e.merge(&[(fallback, before), (value, end)]);
            self.set(result, merged);
        }
        Ok(())
    }
}
