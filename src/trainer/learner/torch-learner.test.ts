/** The `torch` learner on the CPU: held to the contract by one process and by two, which must be the same. */
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stream } from '../../base/random.ts';
import { tensorGap } from '../../engine/test-support.ts';
import type { RowValues } from '../../engine/types.ts';
import type { Learner, LearnerOptions } from './learner.ts';
import { testLearner } from './test-support-conformance.ts';
import { findPython, torchOnCpu } from './test-support-python.ts';
import { randomPasses, stepOn, tinyOptions } from './test-support-tiny.ts';
import { TORCH_PROGRAM, type TorchSettings } from './torch-launch.ts';
import { openTorchLearner } from './torch-learner.ts';
import { startTorch, type TorchProcess } from './torch-process.ts';

const { python, skip } = findPython();

/** A learner over five trees of five tokens, without and with memory that runs out when more than two run at once. */
const OUT_OF_MEMORY = `
import json, sys, torch, types, learner
trees, length, shape = 5, 6, {}
base = learner.load_base(sys.argv[1], torch.float32, torch.device("cpu"))
width = base.config.hidden_size
out = base.get_submodule("model.layers.0.self_attn.q_proj").out_features
name = "base_model.model.model.layers.0.self_attn.q_proj.lora_%s.weight"
shapes = {name % "A": (2, width), name % "B": (out, 2)}
optimizer = {"betas": [0.9, 0.99], "eps": 1e-8, "weightDecay": 0, "clipNorm": 1}
ranks = types.SimpleNamespace(rank=0, count=1, sum=lambda x: x, gather=lambda x: [x])
it = learner.Learner(base, ranks, shapes, 1.0, optimizer, False)
torch.manual_seed(1)
it.theta.copy_(torch.randn(len(it.theta)) / 4)
grid = lambda values: torch.as_tensor(values).expand(trees, length).clone()
rows = torch.tensor([tree * length + at for tree in range(trees) for at in (2, 3, 4)])
batch = {
    "ids": torch.randint(16, (trees, length)), "positions": grid(torch.arange(length)),
    "subtreeEnd": grid(length), "hiddenIndex": rows, "targetId": torch.randint(16, (len(rows),)),
}
coef, entropy = torch.randn(len(rows)), torch.randn(len(rows))
limit, sizes, plain = trees, [], learner.Learner._run_trees

def run_trees(self, batch, part, *rest):
    sizes.append(len(part))
    plain(self, batch, part, *rest)
    if len(part) > limit:
        raise torch.OutOfMemoryError("CUDA out of memory")

def step():
    it.gradient.zero_()
    told, values = it.run(batch, "policy", 1.0, coef, entropy)
    return told, torch.cat([values["logprobs"], values["entropies"], it.gradient.clone()])

def failure():
    try:
        step()
    except Exception as error:
        return type(error).__name__

learner.Learner._run_trees = run_trees
steps = []
for limit in (5, 2, 2):
    steps.append(step())
told, ends = zip(*steps)
tried = list(sizes)
limit = 1
second = failure()
it.budget, limit = None, 0
batch = {key: value[:1] if key in ("ids", "positions", "subtreeEnd") else value[:3] for key, value in batch.items()}
coef, entropy = coef[:3], entropy[:3]
gaps = [((end - ends[0]).abs().max() / ends[0].abs().max()).item() for end in ends[1:]]
print(json.dumps({"gaps": gaps, "told": told, "sizes": tried, "second": second, "single": failure()}))
`;

/** Prints the gaps between the program's own formulas, three rows or five entries at a time, and autograd. */
const CHUNKS = `
import json, torch, types, learner
torch.manual_seed(1)
rows, width, vocab, heat = 10, 6, 11, 0.7
hidden = torch.randn(rows, width, requires_grad=True)
weight, target = torch.randn(vocab, width), torch.randint(vocab, (rows,))
coef, entropy_coef = torch.randn(rows), torch.randn(rows)
log_p = (hidden @ weight.T / heat).log_softmax(-1)
picked, entropy = log_p.gather(1, target[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)
(coef * picked + entropy_coef * entropy).sum().backward()
learner.LOGITS_CHUNK = 3 * vocab
got = learner.head(hidden.detach(), weight, target, heat, coef, entropy_coef)
want = (picked, entropy, hidden.grad)
gaps = [(a - b).abs().max().item() for a, b in zip(got, want)]

def updated(chunk):
    learner.UPDATE_CHUNK = chunk
    torch.manual_seed(2)
    vectors = {name: torch.rand(23) for name in ("theta", "gradient", "first", "second")}
    optimizer = {"betas": [0.9, 0.99], "eps": 1e-3, "weightDecay": 0.1, "clipNorm": 0.5}
    self = types.SimpleNamespace(**vectors, optimizer=optimizer, step=4)
    self.ranks = types.SimpleNamespace(sum=lambda x: x)
    self._adamw = lambda *given: learner.Learner._adamw(self, *given)
    norm, _ = learner.Learner.update(self, 0.1)
    return torch.cat([torch.tensor([norm]), self.theta, self.first, self.second])

gaps.append((updated(5) - updated(100)).abs().max().item())
print(json.dumps(gaps))
`;

const settings = (processes: number): TorchSettings => torchOnCpu(python, { processes });

describe.skipIf(skip)(`the torch learner${skip ? `: ${skip}` : ''}`, { timeout: 120_000 }, () => {
  const processes = new Map<number, TorchProcess>();
  const open = async (
    count: number,
    options: LearnerOptions,
    change: Partial<TorchSettings> = {},
    attention?: 'flex' | 'dense',
  ): Promise<Learner> => {
    const learner = await openTorchLearner(
      processes.get(count)!,
      options,
      { ...settings(count), ...change },
      attention,
    );
    // The processes go on to hold the next test's learner.
    return { ...learner, close: async () => {} };
  };
  beforeAll(async () => {
    await Promise.all([1, 2].map(async (n) => processes.set(n, await startTorch(settings(n)))));
  }, 150_000);
  afterAll(async () => {
    for (const process of processes.values()) await process.close();
  });

  for (const count of [1, 2])
    testLearner(`torch, ${count === 1 ? 'one process' : 'two processes'}`, {
      open: (options) => open(count, options),
      tolerance: { values: 2e-5, gradients: 2e-5, adapters: 2e-5 },
      exact: true,
    });

  it('two processes leave the adapter and the values of one, to 1e-5', async () => {
    const ends = [];
    for (const count of [1, 2]) {
      const learner = await open(count, tinyOptions());
      const random = stream(11, 'ranks');
      const norms: number[] = [];
      for (let step = 0; step < 10; step++)
        norms.push((await stepOn(learner, randomPasses(random))).gradNorm);
      const { batch } = randomPasses(random)[0]!;
      const { adapter } = await learner.state();
      ends.push({ adapter, norms, rows: await learner.rowValues(batch, 'policy', 1) });
    }
    const [one, two] = ends as [(typeof ends)[0], (typeof ends)[0]];
    expect(tensorGap(two.adapter.tensors, one.adapter.tensors)).toBeLessThan(1e-5);
    for (const key of ['logprobs', 'entropies'] as const)
      two.rows[key].forEach((x, r) => {
        expect(Math.abs(x - one.rows[key][r]!)).toBeLessThan(1e-5);
      });
    // The sum over the ranks, not their mean.
    two.norms.forEach((norm, step) => {
      expect(Math.abs(norm / one.norms[step]! - 1)).toBeLessThan(1e-5);
    });
  });

  it('gradient checkpointing changes memory, not gradients', async () => {
    const ends = [];
    for (const gradientCheckpointing of [false, true]) {
      const learner = await open(1, tinyOptions(), { gradientCheckpointing });
      await stepOn(learner, randomPasses(stream(12, 'checkpointing')));
      ends.push((await learner.state()).adapter.tensors);
    }
    expect(tensorGap(ends[1]!, ends[0]!)).toBeLessThan(1e-6);
  });

  it('trees behind each other under flex attention have the values of trees side by side', async () => {
    const passes = randomPasses(stream(13, 'flex'));
    const values: RowValues[][] = [];
    for (const attention of ['dense', 'flex'] as const) {
      const learner = await open(2, tinyOptions(), {}, attention);
      values.push(await Promise.all(passes.map(({ batch }) => learner.rowValues(batch, 'policy', 1))));
    }
    values[0]!.forEach(({ logprobs }, p) => {
      logprobs.forEach((x, r) => {
        expect(Math.abs(x - values[1]![p]!.logprobs[r]!)).toBeLessThan(1e-5);
      });
    });
  });

  it("the vocabulary in chunks has autograd's values and gradients, and an update in chunks is the same", () => {
    const ran = spawnSync(python, ['-c', CHUNKS], {
      env: { ...process.env, PYTHONPATH: dirname(TORCH_PROGRAM), PYTHONDONTWRITEBYTECODE: '1' },
      encoding: 'utf8',
    });
    expect(ran.stderr).toBe('');
    for (const gap of JSON.parse(ran.stdout) as number[]) expect(gap).toBeLessThan(1e-5);
  });

  it('memory that runs out once halves the budget, with the same values and gradient; again is an error', () => {
    const ran = spawnSync(python, ['-c', OUT_OF_MEMORY, tinyOptions().modelFolder], {
      env: { ...process.env, PYTHONPATH: dirname(TORCH_PROGRAM), PYTHONDONTWRITEBYTECODE: '1' },
      encoding: 'utf8',
    });
    expect(ran.stderr).toBe('');
    const { gaps, told, sizes, second, single } = JSON.parse(ran.stdout);
    for (const gap of gaps as number[]) expect(gap).toBeLessThan(1e-6);
    expect(told).toEqual([{}, { halved: { ranks: 1, tokens: 12 } }, {}]);
    // Five trees of 5 tokens: all at once, then by 12; from there on nothing larger is tried.
    expect(sizes).toEqual([5, 5, 2, 2, 1, 2, 2, 1]);
    expect([second, single]).toEqual(['OutOfMemoryError', 'OutOfMemoryError']);
  });

  it('bfloat16 weights come near, and the adapter stays float32', async () => {
    const passes = randomPasses(stream(14, 'bf16'));
    const ends = [];
    for (const dtype of ['float32', 'bfloat16'] as const) {
      const learner = await open(1, tinyOptions(), { dtype });
      const before = await learner.state();
      expect(before.adapter.tensors).toEqual(tinyOptions().start.adapter.tensors);
      const { gradNorm } = await stepOn(learner, passes, 1e-4);
      ends.push({ gradNorm, adapter: (await learner.state()).adapter });
    }
    const [full, half] = ends as [(typeof ends)[0], (typeof ends)[0]];
    expect(half.gradNorm).not.toBe(full.gradNorm);
    expect(Math.abs(half.gradNorm / full.gradNorm - 1)).toBeLessThan(0.1);
    // An update of 1e-4 would be lost in bfloat16 beside entries of 0.2.
    const first = [...tinyOptions().start.adapter.tensors.keys()][0]!;
    const start = tinyOptions().start.adapter.tensors.get(first)!.data;
    const moved = half.adapter.tensors.get(first)!.data.filter((x, i) => x !== start[i]!).length;
    expect(moved / start.length).toBeGreaterThan(0.9);
  });
});
