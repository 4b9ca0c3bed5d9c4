//! The schema of a Parquet file as leaf columns with their paths.
//!
//! Invariant: the tree is as long as the list that spells it; level numbers stay small; names that no list of this program has
//! are facts.

use super::stats::Order;
use super::thrift::Value;
use super::values::Physical;
use crate::audit::finding::Place;
use crate::audit::view::collect::Collector;
use crate::audit::view::fact::Kind;
use crate::audit::view::names::INNER;
use crate::audit::vocab::Role;
use crate::audit::vocab::words::is_plain_name;

/// Deepest nesting, and most columns.
const DEPTH: u8 = 32;
const LEAVES: usize = 10_000;

/// A leaf column.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) order: Order,
    pub(crate) max_def: u8,
    pub(crate) max_rep: u8,
    /// The node that its values go to, and that of the list around them.
    pub(crate) node: usize,
    pub(crate) list: Option<usize>,
    /// Names on the way to it.
    pub(crate) path: Vec<Vec<u8>>,
}

/// The top-level names, for recognising the format.
pub(crate) fn names<'b>(elements: &[Value], input: &'b [u8]) -> Vec<&'b [u8]> {
    let mut names = Vec::new();
    let mut at = 1;
    while at < elements.len() && names.len() < LEAVES {
        names.extend(elements.get(at).and_then(|element| element.bytes(4, input)));
        at = skip(elements, at);
    }
    names
}

fn skip(elements: &[Value], at: usize) -> usize {
    let mut left = 1usize;
    let mut next = at;
    while left > 0 && next < elements.len() {
        let children = elements.get(next).and_then(|element| element.size(5)).unwrap_or(0);
        left = (left - 1).saturating_add(children);
        next += 1;
    }
    next
}

/// All leaves, in file order.
pub(crate) fn leaves(elements: &[Value], input: &[u8], to: &mut Collector<'_, '_>) -> Option<Vec<Leaf>> {
    let mut walk = Walk { elements, input, to, at: 0, leaves: Vec::new(), path: Vec::new() };
    let root = walk.elements.first()?;
    let name = root.bytes(4, input)?;
    if !INNER.contains(&name) && !is_plain_name(name) {
        walk.to.view.facts.add(Kind::Name, Place::default(), "a schema whose name is not made of generic words", None);
    }
    walk.at = 1;
    for _ in 0..root.size(5)? {
        walk.element(0, None, 0, 0, 0)?;
    }
    (walk.at == elements.len()).then_some(walk.leaves)
}

struct Walk<'w, 'b, 'f, 'a> {
    elements: &'w [Value],
    input: &'b [u8],
    to: &'w mut Collector<'f, 'a>,
    at: usize,
    leaves: Vec<Leaf>,
    path: Vec<Vec<u8>>,
}

impl Walk<'_, '_, '_, '_> {
    fn element(&mut self, parent: usize, list: Option<usize>, def: u8, rep: u8, depth: u8) -> Option<()> {
        let elements = self.elements;
        let element = elements.get(self.at)?;
        self.at += 1;
        if depth > DEPTH || self.leaves.len() > LEAVES {
            return None;
        }
        let (optional, repeated) = match element.int(3).unwrap_or(0) {
            0 => (0, 0),
            1 => (1, 0),
            2 => (1, 1),
            _ => return None,
        };
        let (def, rep) = (def + optional, rep + repeated);
        let name = element.bytes(4, self.input)?;
        self.path.push(name.to_vec());
        // Inside a list, the two levels of the format have no name of their own.
        let (node, list) = match list {
            Some(around) => {
                if !INNER.contains(&name) {
                    self.to.view.facts.add(
                        Kind::Name,
                        Place::default(),
                        "an inner name of a list that no writer gives",
                        None,
                    );
                }
                (parent, Some(around))
            }
            None => (self.to.nodes.child(parent, name, 0), None),
        };
        let converted = element.int(6);
        let logical = element.get(10);
        if let Some(children) = element.size(5).filter(|_| element.int(1).is_none()) {
            let is_list = converted == Some(3) || logical.is_some_and(|logical| logical.get(3).is_some());
            for _ in 0..children {
                if is_list && list.is_none() {
                    let inner = self.to.nodes.element(node, 0);
                    self.element(inner, Some(node), def, rep, depth + 1)?;
                } else {
                    self.element(node, list, def, rep, depth + 1)?;
                }
            }
            self.path.pop();
            return Some(());
        }
        let kind = Physical::parse(element.int(1)?, element.size(2))?;
        let unsigned = matches!(converted, Some(11..=14))
            || logical
                .and_then(|logical| logical.get(10))
                .is_some_and(|integer| integer.get(2) == Some(&Value::Bool(false)));
        let instant = matches!(converted, Some(6 | 9 | 10))
            || logical.is_some_and(|logical| logical.get(6).is_some() || logical.get(8).is_some());
        let node = if repeated == 1 && list.is_none() { self.to.nodes.element(node, 0) } else { node };
        if (instant || kind == Physical::Int96)
            && let Some(node) = self.to.nodes.get_mut(node)
        {
            node.role = Role::WallClock;
        }
        let list = list.or((repeated == 1).then_some(node));
        self.leaves.push(Leaf {
            order: Order { kind, unsigned },
            max_def: def,
            max_rep: rep,
            node,
            list,
            path: self.path.clone(),
        });
        self.path.pop();
        Some(())
    }
}
