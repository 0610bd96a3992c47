//! Bounding-volume hierarchies, built on the host.

/// A box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) min: [f32; 3],
    pub(crate) max: [f32; 3],
}

/// A node; nodes stand in depth-first order, so that a node's first child, if it has children, comes right after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Around everything below.
    pub(crate) bounds: Bounds,
    /// The node after all that are below this one: where a walk goes on that has nothing to find here.
    pub(crate) skip: usize,
    /// A leaf's first place in the order.
    pub(crate) first: usize,
    /// How many a leaf has, at most [`MAX_LEAF`]; 0 for inner nodes.
    pub(crate) count: usize,
}

/// A hierarchy.
pub(crate) struct Bvh {
    /// All nodes, the root first; none if there are no boxes.
    pub(crate) nodes: Vec<Node>,
    /// Indices of the boxes, each once; leaves are ranges of it.
    pub(crate) order: Vec<usize>,
}

/// Most boxes of a leaf.
pub(crate) const MAX_LEAF: usize = 4;

/// Cells along an axis in which centres are counted.
const BINS: usize = 16;

/// What visiting a node costs, in tests of a triangle.
const VISIT: f32 = 1.0;

/// What is left to do.
enum Task {
    /// A node over this range of the order.
    Open(std::ops::Range<usize>),
    /// All below that node is there.
    Close(usize),
}

impl Bounds {
    /// Around nothing.
    pub(crate) const EMPTY: Bounds = Bounds { min: [f32::INFINITY; 3], max: [f32::NEG_INFINITY; 3] };

    /// Around both.
    #[must_use]
    pub(crate) fn union(self, other: Bounds) -> Bounds {
        Bounds {
            min: std::array::from_fn(|axis| self.min[axis].min(other.min[axis])),
            max: std::array::from_fn(|axis| self.max[axis].max(other.max[axis])),
        }
    }

    /// Around points.
    pub(crate) fn of(points: &[[f32; 3]]) -> Bounds {
        points.iter().fold(Bounds::EMPTY, |bounds, &point| bounds.union(Bounds { min: point, max: point }))
    }

    fn centre(&self, axis: usize) -> f32 {
        self.min[axis] * 0.5 + self.max[axis] * 0.5
    }

    /// Half of the surface.
    fn area(&self) -> f32 {
        let [x, y, z] = std::array::from_fn(|axis| (self.max[axis] - self.min[axis]).max(0.0));
        x * y + y * z + z * x
    }
}

impl Bvh {
    /// A hierarchy over boxes of finite numbers: split where the surface area heuristic is least at the bounds of 16 cells
    /// along each axis (Wald 2007, "On fast construction of SAH-based bounding volume hierarchies").
    pub(crate) fn new(boxes: &[Bounds]) -> Bvh {
        let mut nodes: Vec<Node> = Vec::new();
        let mut order: Vec<usize> = (0..boxes.len()).collect();
        let mut tasks = Vec::new();
        if !boxes.is_empty() {
            tasks.push(Task::Open(0..boxes.len()));
        }
        while let Some(task) = tasks.pop() {
            let range = match task {
                Task::Close(node) => {
                    nodes[node].skip = nodes.len();
                    continue;
                }
                Task::Open(range) => range,
            };
            let below = order[range.clone()].iter();
            let bounds = below.fold(Bounds::EMPTY, |bounds, &i| bounds.union(boxes[i]));
            let node = nodes.len();
            nodes.push(Node { bounds, skip: node + 1, first: range.start, count: range.len() });
            if let Some(middle) = split(boxes, &mut order[range.clone()], &bounds) {
                nodes[node].count = 0;
                let middle = range.start + middle;
                tasks.extend([
                    Task::Close(node),
                    Task::Open(middle..range.end),
                    Task::Open(range.start..middle),
                ]);
            }
        }
        Bvh { nodes, order }
    }
}

/// Reorders the range so that what belongs together stands on one side of the index that is returned; none for a leaf.
fn split(boxes: &[Bounds], range: &mut [usize], bounds: &Bounds) -> Option<usize> {
    if range.len() < 2 {
        return None;
    }
    let must = range.len() > MAX_LEAF;
    let best =
        (0..3).filter_map(|axis| best_cut(boxes, range, axis)).min_by(|a, b| a.cost.total_cmp(&b.cost));
    let Some(cut) = best else {
        // All centres are one point: no cut tells them apart.
        return must.then_some(range.len() / 2);
    };
    let whole = bounds.area();
    if !must && cut.cost + VISIT * whole >= whole * range.len() as f32 {
        return None;
    }
    range.sort_unstable_by_key(|&i| (cut.bin(&boxes[i]) >= cut.at, i));
    Some(range.partition_point(|&i| cut.bin(&boxes[i]) < cut.at))
}

/// A plane between two cells of an axis.
struct Cut {
    axis: usize,
    /// The first centre, and from centres to cells.
    start: f32,
    scale: f32,
    /// The first cell on the far side.
    at: usize,
    /// Areas times numbers of both sides.
    cost: f32,
}

impl Cut {
    fn bin(&self, bounds: &Bounds) -> usize {
        (((bounds.centre(self.axis) - self.start) * self.scale) as usize).min(BINS - 1)
    }
}

/// The best plane across an axis; none where all centres are the same.
fn best_cut(boxes: &[Bounds], range: &[usize], axis: usize) -> Option<Cut> {
    let centres = range.iter().map(|&i| boxes[i].centre(axis));
    let (start, end) =
        centres.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), c| (low.min(c), high.max(c)));
    let scale = BINS as f32 / (end - start);
    // Also where centres are so close that cells have no size, or so far that they have no bounds.
    if !(scale.is_finite() && scale > 0.0) {
        return None;
    }
    let mut cut = Cut { axis, start, scale, at: 0, cost: f32::INFINITY };
    let mut bins = [(Bounds::EMPTY, 0usize); BINS];
    for &i in range {
        let (bounds, count) = &mut bins[cut.bin(&boxes[i])];
        *bounds = bounds.union(boxes[i]);
        *count += 1;
    }
    let add = |(bounds, count): (Bounds, usize), bin: &(Bounds, usize)| (bounds.union(bin.0), count + bin.1);
    for at in 1..BINS {
        let sides = [&bins[..at], &bins[at..]].map(|side| side.iter().fold((Bounds::EMPTY, 0), add));
        if sides.iter().all(|(_, count)| *count > 0) {
            let cost = sides.iter().map(|(bounds, count)| bounds.area() * *count as f32).sum();
            if cut.at == 0 || cost < cut.cost {
                (cut.at, cut.cost) = (at, cost);
            }
        }
    }
    (cut.at > 0).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(points: &[[f32; 3]]) -> Vec<Bounds> {
        points.iter().map(|point| Bounds::of(&[*point])).collect()
    }

    /// Each box is in one leaf, all nodes contain what is below, and skips lead where subtrees end.
    fn check(boxes: &[Bounds]) {
        let Bvh { nodes, order } = Bvh::new(boxes);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..boxes.len()).collect::<Vec<_>>());
        let mut covered = 0;
        for (index, node) in nodes.iter().enumerate() {
            assert!(node.skip > index && node.skip <= nodes.len());
            assert!(node.count <= MAX_LEAF);
            if node.count > 0 {
                assert_eq!((node.skip, node.first), (index + 1, covered));
                covered += node.count;
                for &i in &order[node.first..node.first + node.count] {
                    assert_eq!(node.bounds.union(boxes[i]), node.bounds);
                }
            } else {
                let second = nodes[index + 1].skip;
                assert!(second < node.skip, "two children");
                assert_eq!(nodes[second].skip, node.skip);
                for child in [index + 1, second] {
                    assert_eq!(node.bounds.union(nodes[child].bounds), node.bounds);
                }
            }
        }
        assert_eq!(covered, boxes.len());
    }

    #[test]
    fn nodes_contain_what_is_below() {
        let uniform = |i: u32| crate::random::uniform(i, 5);
        for n in [0, 1, 2, 4, 5, 17, 1000] {
            check(&around(&(0..n).map(|i| [0, 1, 2].map(|k| uniform(i * 3 + k))).collect::<Vec<_>>()));
            check(&around(&vec![[1.0, 2.0, 3.0]; n as usize]));
            check(&around(&(0..n).map(|i| [i as f32, 0.0, 0.0]).collect::<Vec<_>>()));
            // Closer and closer, until numbers end.
            check(&around(&(0..n).map(|i| [0.5f32.powi(i as i32), 0.0, 0.0]).collect::<Vec<_>>()));
            check(&around(
                &(0..n).map(|i| [f32::MAX * (uniform(i) - 0.5), 0.0, f32::MAX]).collect::<Vec<_>>(),
            ));
        }
    }

    #[test]
    fn clusters_are_told_apart() {
        let points: Vec<[f32; 3]> =
            (0..8).map(|i| [if i % 2 == 0 { 0.0 } else { 10.0 } + i as f32 * 0.01, 0.0, 0.0]).collect();
        let Bvh { nodes, .. } = Bvh::new(&around(&points));
        let second = nodes[1].skip;
        assert!(nodes[1].bounds.max[0] < 1.0 && nodes[second].bounds.min[0] >= 10.0);
    }
}
