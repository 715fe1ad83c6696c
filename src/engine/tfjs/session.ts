/**
 * Running a graph on TensorFlow.js: its nodes one after the other, a node's tensor freed after its last use.
 * Id order is the order in which the graph was written, which is the order that needs little memory.
 */
import { expandComposites } from '../composites.ts';
import { dimValue } from '../dims.ts';
import type { Executor, Session, Value } from '../executor.ts';
import { isOp, type Node, reachable } from '../graph.ts';
import type { OpName } from '../ops.ts';
import { readTensor, type SafetensorsEntry } from '../safetensors.ts';
import type { Tfjs, TfTensor } from './backend.ts';
import { KERNELS } from './kernels.ts';

type Symbols = ReadonlyMap<string, number>;

/** A node, and the nodes whose tensors nothing needs once it is computed. */
interface Step {
  node: Node;
  dead: Node[];
}

/**
 * An executor on one TensorFlow.js backend. Its sessions share the frozen weights, which are read, widened to
 * f32 and given to the backend once. The backend chooses its own threads.
 */
export function createTfjsExecutor(tf: Tfjs): Executor {
  const weightOf = sharedWeights(tf);
  return async (outputs, { weights }) => {
    const names = [...outputs.keys()];
    const roots = expandComposites([...outputs.values()]);
    const order = reachable(roots);
    const held = new Map<Node, TfTensor>();
    const letGo: (() => void)[] = [];
    try {
      for (const node of order) {
        if (isOp(node, 'weight')) {
          const entry = weights.get(node.attrs.name);
          if (!entry) throw new Error(`no weight '${node.attrs.name}'`);
          const { tensor, release } = weightOf(entry);
          held.set(node, tensor);
          letGo.push(release);
        } else if (isOp(node, 'constant')) {
          const { data, shape, dtype } = node.attrs;
          const tensor = tf.tensor(data, shape, TF_DTYPE[dtype]);
          held.set(node, tensor);
          letGo.push(() => tensor.dispose());
        }
      }
    } catch (error) {
      for (const release of letGo) release();
      throw error;
    }
    const steps = planSteps(order, new Set([...roots, ...held.keys()]));
    let released = false;
    const session: Session = {
      async run(feeds) {
        if (released) throw new Error('the session is released');
        const values = new Map(held);
        try {
          interpret(tf, steps, values, feeds);
          const results = new Map<string, Value>();
          for (const [i, root] of roots.entries()) results.set(names[i]!, await read(values.get(root)!));
          return results;
        } finally {
          for (const [node, tensor] of values) if (!held.has(node)) tensor.dispose();
        }
      },
      async release() {
        if (released) return;
        released = true;
        for (const release of letGo) release();
      },
    };
    return session;
  };
}

const TF_DTYPE = { f32: 'float32', i32: 'int32', bool: 'bool' } as const;

/** One tensor for each weight of a file, as long as a session holds it. */
function sharedWeights(tf: Tfjs) {
  const open = new Map<string, { tensor: TfTensor; users: number }>();
  return (entry: SafetensorsEntry): { tensor: TfTensor; release: () => void } => {
    const key = `${entry.offset} ${entry.file}`;
    let weight = open.get(key);
    if (!weight) {
      const { data, shape } = readTensor(entry);
      weight = { tensor: tf.tensor(data, shape, 'float32'), users: 0 };
      open.set(key, weight);
    }
    const held = weight;
    held.users++;
    const release = (): void => {
      if (--held.users > 0) return;
      open.delete(key);
      held.tensor.dispose();
    };
    return { tensor: held.tensor, release };
  };
}

/** The nodes to compute, in order; those in `kept` outlive the run. */
function planSteps(order: readonly Node[], kept: ReadonlySet<Node>): Step[] {
  const steps = order.map((node): Step => ({ node, dead: [] }));
  const lastUse = new Map<Node, Step>();
  for (const step of steps) for (const input of step.node.inputs) lastUse.set(input, step);
  for (const [node, step] of lastUse) if (!kept.has(node)) step.dead.push(node);
  return steps;
}

/** Fills `values`, which has the weights and constants, with the feeds and the outputs. */
function interpret(
  tf: Tfjs,
  steps: readonly Step[],
  values: Map<Node, TfTensor>,
  feeds: ReadonlyMap<string, Value>,
): void {
  const symbols = symbolValues(steps, feeds);
  for (const { node, dead } of steps) {
    if (isOp(node, 'input')) {
      const { shape, data } = feeds.get(node.attrs.name)!;
      values.set(node, tf.tensor(data, [...shape], TF_DTYPE[node.dtype]));
    } else if (!values.has(node)) {
      const kernel = KERNELS[node.op] as Kernel;
      const shape = node.shape.map((d) => dimValue(d, symbols));
      const inputs = node.inputs.map((input) => values.get(input)!);
      values.set(
        node,
        tf.tidy(() => kernel(tf, node, shape, ...inputs)),
      );
    }
    for (const gone of dead) {
      values.get(gone)!.dispose();
      values.delete(gone);
    }
  }
}

type Kernel = (tf: Tfjs, node: Node<OpName>, shape: number[], ...inputs: TfTensor[]) => TfTensor;

/** The sizes that the feeds give to the symbols of their nodes; throws where a feed is missing or does not fit. */
function symbolValues(steps: readonly Step[], feeds: ReadonlyMap<string, Value>): Symbols {
  const symbols = new Map<string, number>();
  const inputs = steps.map(({ node }) => node).filter((node) => isOp(node, 'input'));
  for (const { shape, attrs } of inputs) {
    const feed = feeds.get(attrs.name);
    if (!feed) throw new Error(`input '${attrs.name}' is missing`);
    shape.forEach((dim, axis) => {
      if (typeof dim === 'string' && !dim.includes('*') && !symbols.has(dim))
        symbols.set(dim, feed.shape[axis]!);
    });
  }
  for (const { shape, attrs } of inputs) {
    const got = feeds.get(attrs.name)!.shape;
    const want = shape.map((d) => dimValue(d, symbols));
    if (got.join() !== want.join())
      throw new Error(`input '${attrs.name}' has shape [${got}]; [${shape}] is [${want}] here`);
  }
  return symbols;
}

/** A copy: what a backend gives may be the memory of a feed or a weight. */
async function read(tensor: TfTensor): Promise<Value> {
  const data = await tensor.data();
  if (data instanceof Uint8Array) throw new Error('booleans are no results');
  return { shape: [...tensor.shape], data: data.slice() };
}
