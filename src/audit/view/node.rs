//! Paths of a document as a tree of nodes, each with the numbers seen there.
//!
//! Invariant: nodes are bounded in number; a label shows declared names and generic words, and a number for anything else.

use std::collections::BTreeMap;

use super::choices::Choices;
use crate::audit::vocab::words::is_plain_name;
use crate::audit::vocab::{Role, Shape};

/// Most paths of a file that get a node of their own.
const NODES: usize = 4096;

/// A path.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each was seen or not, on its own")]
pub(crate) struct Node {
    pub(crate) label: String,
    pub(crate) shape: Option<&'static Shape>,
    pub(crate) role: Role,
    /// Children by declared place.
    declared: Vec<Option<usize>>,
    /// Children with other names. Names are kept only while the file is read.
    others: BTreeMap<Box<[u8]>, usize>,
    element: Option<usize>,
    /// The object that this member was last seen in: a second time is a duplicate.
    pub(crate) stamp: u64,
    pub(crate) plain: bool,
    pub(crate) overflow: bool,
    pub(crate) first_row: u64,
    pub(crate) values: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) lists: Vec<usize>,
    pub(crate) outputs: Vec<u64>,
    /// True and false, in row order.
    pub(crate) bits: Vec<bool>,
    pub(crate) choices: Choices,
    /// The object whose members are being read, its last member, and the member that followed this one lately.
    pub(crate) open: u64,
    pub(crate) last: usize,
    pub(crate) follower: usize,
    /// Digits behind the point: how many, whether that differs, and whether zeros end them.
    pub(crate) decimals: Option<usize>,
    pub(crate) ragged: bool,
    pub(crate) padded: bool,
    /// Numbers ever seen here.
    pub(crate) count: u64,
    /// How often each number occurs, while they are few.
    pub(crate) histogram: BTreeMap<i64, u64>,
    pub(crate) texts: u64,
    pub(crate) objects: u64,
    pub(crate) others_seen: u64,
}

/// All paths of a file; the first is the record.
#[derive(Debug)]
pub(crate) struct Nodes(Vec<Node>);

impl Node {
    /// The nodes of its members.
    pub(crate) fn members(&self) -> Vec<usize> {
        self.declared.iter().flatten().chain(self.others.values()).copied().collect()
    }
}

impl Nodes {
    pub(crate) fn new(shape: Option<&'static Shape>) -> Self {
        Self(vec![Node { shape, plain: true, ..Node::default() }])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The node; the record's where there is none of this number, which cannot be.
    pub(crate) fn get(&self, node: usize) -> Option<&Node> {
        self.0.get(node)
    }

    pub(crate) fn get_mut(&mut self, node: usize) -> Option<&mut Node> {
        self.0.get_mut(node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    /// Whether a name was met that is not made of generic words.
    pub(crate) fn any_foreign(&self) -> bool {
        self.0.iter().any(|node| !node.plain)
    }

    /// How a node is called in findings.
    pub(crate) fn label(&self, node: usize) -> &str {
        self.0.get(node).map(|node| node.label.as_str()).unwrap_or_default()
    }

    pub(crate) fn shape(&self, node: usize) -> Option<&'static Shape> {
        self.0.get(node).and_then(|node| node.shape)
    }

    /// The node of a member, made if it is new.
    pub(crate) fn child(&mut self, parent: usize, name: &[u8], row: u64) -> usize {
        let Some(above) = self.0.get(parent) else { return 0 };
        let fields = above.shape.and_then(Shape::fields).unwrap_or_default();
        if let Some(place) = fields.iter().position(|field| field.name.as_bytes() == name) {
            if let Some(Some(known)) = above.declared.get(place) {
                return *known;
            }
            let Some(field) = fields.get(place) else { return 0 };
            let label = join(&above.label, field.name);
            let child = self.push(Node {
                label,
                shape: Some(&field.shape),
                role: field.role,
                plain: true,
                first_row: row,
                ..Node::default()
            });
            if let Some(above) = self.0.get_mut(parent) {
                above.declared.resize(fields.len().max(above.declared.len()), None);
                if let Some(slot) = above.declared.get_mut(place) {
                    *slot = Some(child);
                }
            }
            return child;
        }
        if let Some(known) = above.others.get(name) {
            return *known;
        }
        let plain = is_plain_name(name);
        let shown = match std::str::from_utf8(name) {
            Ok(name) if plain => name.to_owned(),
            _ => format!("?{}", above.others.len() + 1),
        };
        let overflow = self.0.len() >= NODES;
        let label = join(&above.label, &shown);
        let role = if plain { role_of(name) } else { Role::Plain };
        if overflow {
            return self.overflow(row);
        }
        let child = self.push(Node { label, role, plain, first_row: row, ..Node::default() });
        if let Some(above) = self.0.get_mut(parent) {
            above.others.insert(name.into(), child);
        }
        child
    }

    /// The node of a list's elements, made if it is new.
    pub(crate) fn element(&mut self, list: usize, row: u64) -> usize {
        let Some(above) = self.0.get(list) else { return 0 };
        if let Some(known) = above.element {
            return known;
        }
        let shape = match above.shape {
            Some(Shape::List(shape)) => Some(*shape),
            _ => None,
        };
        let (label, role, plain) = (format!("{}[]", above.label), above.role, above.plain);
        if self.0.len() >= 2 * NODES {
            return self.overflow(row);
        }
        let child = self.push(Node { label, shape, role, plain, first_row: row, ..Node::default() });
        if let Some(above) = self.0.get_mut(list) {
            above.element = Some(child);
        }
        child
    }

    /// The one node for all paths beyond the limit.
    fn overflow(&mut self, row: u64) -> usize {
        if let Some(known) = self.0.iter().position(|node| node.overflow) {
            return known;
        }
        self.push(Node { label: "?".to_owned(), overflow: true, first_row: row, ..Node::default() })
    }

    fn push(&mut self, node: Node) -> usize {
        self.0.push(node);
        self.0.len() - 1
    }
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") }
}

/// What an undeclared field seems to mean, by its name.
fn role_of(name: &[u8]) -> Role {
    let name = name.to_ascii_lowercase();
    let ends = |ends: &[&[u8]]| ends.iter().any(|end| name.ends_with(end));
    if ends(&[b"chars", b"characters", b"bytes", b"char_count", b"char_len"]) {
        Role::Characters
    } else if ends(&[b"timestamp", b"_at", b"date", b"datetime", b"created", b"time"]) {
        Role::Time
    } else {
        Role::Plain
    }
}
