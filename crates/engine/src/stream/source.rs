//! What a stream tells: spaces, each as it is in one version, and what it is compared with.
//!
//! Invariants:
//! - A snapshot is read through a new view for every part: it does not change, and nothing is pinned for long.
//! - A space that may change is told from a passing snapshot of it, or, where the store is open for reading only, through one view.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batch::{Batch, Durability, Operation, SpaceId, Version};
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::state::POINTS;
use crate::state::State;
use crate::stream::passing::{each_space, is_passing};
use crate::tree::value::{SpaceRoot, Value};
use crate::tree::{NodeSource, Tree};
use crate::view::View;

/// What a space is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// By what it is told.
    pub space: SpaceId,
    pub created: Version,
    /// What is read: itself, or a passing snapshot of it.
    pub read: SpaceId,
    /// The commit that made what is read.
    pub read_created: Version,
    /// It is told before in the same stream; else it is a snapshot that the other side has.
    pub within: bool,
    /// What both have of an older version than this is the same.
    pub before: Version,
}

/// A space to be told.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// By what it is told.
    pub space: SpaceId,
    /// What is read: itself, or a passing snapshot.
    pub read: SpaceId,
    pub created: Version,
    /// The commit that made what is read.
    pub read_created: Version,
    pub is_snapshot: bool,
    pub base: Option<Base>,
}

/// Spaces to be told, and what keeps them as they are.
pub struct Sources {
    core: Arc<Core>,
    /// Of a store that is open for reading only.
    held: Option<View>,
    passing: Vec<SpaceId>,
    pub all: Vec<Source>,
}

impl Drop for Sources {
    fn drop(&mut self) {
        let drops = self.passing.drain(..).map(|space| Operation::DropSpace { space });
        let batch = Batch { operations: drops.collect(), ..Batch::default() };
        if !batch.operations.is_empty() {
            // Where it fails the next opening drops them.
            drop(self.core.submit(batch, Durability::Memory));
        }
    }
}

/// The trees that one part is made from; the view keeps them.
pub struct Trees {
    pub view: View,
    pub old: Tree,
    pub new: Tree,
}

fn no_space(space: SpaceId) -> Error {
    Error::new(ErrorKind::NotFound, format!("space {} is not there", space.0))
}

fn root_of(core: &Core, state: &State, space: SpaceId) -> Result<SpaceRoot> {
    state.space(&core.nodes, space)?.ok_or_else(|| no_space(space))
}

impl Sources {
    /// These spaces, all of one version; without any, every space that users made.
    pub fn of(core: &Arc<Core>, spaces: &[SpaceId]) -> Result<Sources> {
        let view = View::new(core);
        let mut found = Vec::new();
        if spaces.is_empty() {
            each_space(view.state(), &core.nodes, SpaceId::FIRST, &mut |space, root| found.push((space, root)))?;
            found.retain(|(space, _)| !is_passing(*space));
        }
        for space in spaces {
            found.push((*space, root_of(core, view.state(), *space)?));
        }
        let all = found.into_iter().map(|(space, root)| Source {
            space,
            read: space,
            created: root.created,
            read_created: root.created,
            is_snapshot: root.is_read_only(),
            base: None,
        });
        let mut sources = Sources { core: Arc::clone(core), held: None, passing: Vec::new(), all: all.collect() };
        if core.read_only {
            sources.held = Some(view);
        } else {
            drop(view);
            sources.freeze()?;
        }
        sources.relate()?;
        Ok(sources)
    }

    /// Makes passing snapshots of what may change, in one commit.
    fn freeze(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        for source in self.all.iter_mut().filter(|source| !source.is_snapshot) {
            source.read = self.core.passing_space();
            self.passing.push(source.read);
            batch.operations.push(Operation::SnapshotSpace { from: source.space, to: source.read });
        }
        if batch.operations.is_empty() {
            return Ok(());
        }
        // Asked to be on the medium, so that it is visible when the outcome comes.
        let version = self.core.submit(batch, Durability::Written).wait()?.version;
        self.all.iter_mut().filter(|source| !source.is_snapshot).for_each(|source| source.read_created = version);
        Ok(())
    }

    /// Tells a space against one that is told before it, where both come from the same branch point: what they share is then
    /// told once, and shared again where it is received. Of several the one with the nearest point in common is taken.
    fn relate(&mut self) -> Result<()> {
        if self.all.len() < 2 {
            return Ok(());
        }
        let view = self.held.clone().unwrap_or_else(|| View::new(&self.core));
        let mut chains = Chains { core: &self.core, state: view.state(), points: BTreeMap::new() };
        let mut origins = Vec::with_capacity(self.all.len());
        for source in &self.all {
            let origin = root_of(&self.core, view.state(), source.read)?.lineage().origin;
            origins.push((chains.depth(origin)?, !source.is_snapshot, origin, *source));
        }
        // Those that others come from are told first, and what a point holds by its snapshot.
        origins.sort_by_key(|(depth, is_live, ..)| (*depth, *is_live));
        let mut told: BTreeMap<u64, Base> = BTreeMap::new();
        for (_, _, origin, source) in &mut origins {
            let mut point = *origin;
            while point != 0 && !told.contains_key(&point) {
                point = chains.before(point);
            }
            source.base = told.get(&point).copied();
            let Source { space, created, read, read_created, is_snapshot, .. } = *source;
            let before = if is_snapshot { created } else { Version(0) };
            let itself = Base { space, created, read, read_created, within: true, before };
            let mut point = *origin;
            while point != 0 && !told.contains_key(&point) {
                // Of a point further up it has no more than its own changes left.
                let before = if point == *origin { before } else { Version(0) };
                told.insert(point, Base { before, ..itself });
                point = chains.before(point);
            }
        }
        self.all = origins.into_iter().map(|(.., source)| source).collect();
        Ok(())
    }

    /// Compares the one space that is told with a snapshot that it comes from.
    pub fn compare_with(&mut self, base: SpaceId) -> Result<()> {
        let view = View::new(&self.core);
        let state = view.state();
        let old = root_of(&self.core, state, base)?;
        let [source] = self.all.as_mut_slice() else { return Err(Error::invalid("one space has one base")) };
        let new = root_of(&self.core, state, source.read)?;
        if !old.is_read_only() {
            let message = format!("space {} may change and is no base: a base is a snapshot", base.0);
            return Err(Error::invalid(message));
        }
        let (wanted, mut point) = (old.lineage().origin, new.lineage().origin);
        while point != 0 && point != wanted {
            point = point_of(state, &self.core.nodes, point)?.lineage().origin;
        }
        if point == 0 {
            let message =
                format!("space {} does not come from snapshot {}: send it without a base", source.space.0, base.0);
            return Err(Error::invalid(message));
        }
        let (created, before) = (old.created, old.created);
        source.base = Some(Base { space: base, created, read: base, read_created: created, within: false, before });
        Ok(())
    }

    /// The trees of a source as they are.
    pub fn trees(&self, source: &Source) -> Result<Trees> {
        let view = self.held.clone().unwrap_or_else(|| View::new(&self.core));
        let tree = |space: SpaceId, created: Version| {
            let root = root_of(&self.core, view.state(), space)?;
            if root.created != created {
                return Err(Error::new(ErrorKind::Expired, format!("snapshot {} was dropped meanwhile", space.0)));
            }
            Ok(root.tree)
        };
        let new = tree(source.read, source.read_created)?;
        let old = source.base.map_or(Ok(Tree::new()), |base| tree(base.read, base.read_created))?;
        Ok(Trees { view, old, new })
    }
}

/// The branch points that others come from, each looked up once.
struct Chains<'a> {
    core: &'a Core,
    state: &'a State,
    /// The point before each, and how many are before it.
    points: BTreeMap<u64, (u64, u64)>,
}

impl Chains<'_> {
    /// How many points lead to one, itself counted; finds them.
    fn depth(&mut self, origin: u64) -> Result<u64> {
        let (mut found, mut point) = (Vec::new(), origin);
        while point != 0 && !self.points.contains_key(&point) {
            let before = point_of(self.state, &self.core.nodes, point)?.lineage().origin;
            found.push((point, before));
            point = before;
        }
        let mut depth = self.points.get(&point).map_or(0, |known| known.1);
        for (point, before) in found.into_iter().rev() {
            depth += 1;
            self.points.insert(point, (before, depth));
        }
        Ok(depth)
    }

    /// The point before one that was found.
    fn before(&self, point: u64) -> u64 {
        self.points.get(&point).map_or(0, |known| known.0)
    }
}

fn point_of(state: &State, source: &dyn NodeSource, point: u64) -> Result<SpaceRoot> {
    let points = state.space(source, POINTS)?;
    let value = points.map_or(Ok(None), |points| points.tree.get(source, &point.to_be_bytes()))?;
    match value {
        Some(Value::Root(root)) => Ok(root),
        _ => Err(Error::damaged(format!("branch point {point} is not there"))),
    }
}
