/**
 * The batch that the learners are compared on: the first GRPO step of the STARD run, sampled by its warm-started
 * policy, 16 questions × 8 rollouts. Kept in runs/bench-learner, so it is recorded once; where the STARD data
 * is absent the demo's takes its place.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { writeFileAtomic } from '../../src/base/atomic-write.ts';
import { readJsonFile } from '../../src/base/read-json.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { writeAdapter } from '../../src/engine/peft.ts';
import { createScreen } from '../../src/report/progress.ts';
import { inProcessPool } from '../../src/rollout/pool/pool.ts';
import { createLearner } from '../../src/trainer/create-learner.ts';
import { assignCredit } from '../../src/trainer/credit.ts';
import { createEnvironment } from '../../src/trainer/environment.ts';
import { startPolicyService } from '../../src/trainer/policy-service.ts';
import { ensureModel, loadData, probeIds, rolloutContext, trainSampling } from '../../src/trainer/prepare.ts';
import { PROOF_TOLERANCE } from '../../src/trainer/publish.ts';
import { sampleStep } from '../../src/trainer/sample-step.ts';
import { loraSpec, startRun, startState } from '../../src/trainer/start-run.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const QUESTIONS = 16;
const MEMBERS = 8;

const ids = z.array(z.number().int());
const batchSchema = z.object({
  data: z.enum(['stard', 'demo']),
  modelFolder: z.string(),
  samples: z.array(
    z.object({ promptIds: ids, outputIds: ids, logprobs: z.array(z.number()), advantage: z.number() }),
  ),
});

/** A recorded step; its adapter is the policy that sampled it. */
export interface Recorded extends z.infer<typeof batchSchema> {
  config: Config;
  adapterFolder: string;
}

/** The recorded batch; recorded now where it is not there yet. */
export async function recordedBatch(): Promise<Recorded> {
  const stard = existsSync(join(ROOT, '../shared/data/stard'));
  const config = loadConfig(join(ROOT, 'configs', stard ? 'stard.yaml' : 'quickstart.yaml'), {
    set: [
      'run.name=bench-learner',
      `rollout.queriesPerStep=${QUESTIONS}`,
      `rollout.groupSize=${MEMBERS}`,
      // A quarter of the warm start writes outputs of the same lengths, and is made in a quarter of the time.
      'sft.share=0.25',
    ],
  });
  const folder = join(ROOT, 'runs/bench-learner', stard ? 'stard' : 'demo');
  const file = join(folder, 'batch.json');
  const adapterFolder = join(folder, 'adapter');
  if (!existsSync(file)) {
    console.log(
      `recording the first step of configs/${stard ? 'stard' : 'quickstart'}.yaml; this is done once …`,
    );
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const recorded = await record(config, folder, adapterFolder);
    await writeFileAtomic(file, JSON.stringify({ data: stard ? 'stard' : 'demo', ...recorded }));
  }
  const batch = readJsonFile(file, batchSchema, `remove ${folder}; it is recorded again then`);
  return { ...batch, config, adapterFolder };
}

/** Warm start, publication and one step's rollouts, as `lexpo train` does them; writes the policy's adapter. */
async function record(config: Config, folder: string, adapterFolder: string) {
  const screen = createScreen(process.stdout, () => performance.now());
  const data = await loadData(config);
  const model = await ensureModel(config, data, screen.print);
  const environment = createEnvironment(config, data);
  const learner = await createLearner(
    config.learner,
    {
      modelFolder: model.folder,
      spec: loraSpec(config),
      optimizer: config.optimizer,
      threads: config.learner.threads,
      start: startState(config, model.config),
    },
    screen.print,
  );
  try {
    const adapters = join(folder, 'adapters');
    mkdirSync(adapters);
    const ids = probeIds(model, data);
    const service = await startPolicyService(config, model, {
      adapterRoot: adapters,
      probeIds: ids,
      tolerance: PROOF_TOLERANCE,
      lora: loraSpec(config),
      adopt: true,
      say: screen.print,
    });
    const { replicas } = service;
    try {
      const target = {
        replicas,
        adapterRoot: adapters,
        runName: config.run.name,
        baseModel: config.model.path,
        probeIds: ids,
      };
      const { signal } = new AbortController();
      const start = await startRun({ config, data, model, environment, learner, target, screen, signal });
      await writeAdapter(adapterFolder, (await learner.state()).adapter, { baseModel: config.model.path });
      const context = rolloutContext(config, model, environment, replicas);
      const { refill, ...advantage } = config.advantage;
      const credit = { ...advantage, minGroup: config.rollout.minGroup };
      const { groups } = await sampleStep(
        inProcessPool(context, trainSampling(config)),
        data.train,
        start.policy,
        1,
        0,
        { seed: config.run.seed, queriesPerStep: QUESTIONS, groupSize: MEMBERS, refill: 0 },
        () => true,
      );
      // Every group, so that there are 128 rollouts: one without variance trains with advantage 0.
      const { calls } = assignCredit(groups, credit);
      const advantageOf = new Map(calls.map(({ trajectory, advantage }) => [trajectory, advantage]));
      const samples = groups.flat().flatMap((trajectory) =>
        trajectory.calls.map(({ promptIds, outputIds, logprobs }) => ({
          promptIds,
          outputIds,
          logprobs,
          advantage: advantageOf.get(trajectory) ?? 0,
        })),
      );
      return { modelFolder: model.folder, samples };
    } finally {
      await service.close();
    }
  } finally {
    await learner.close();
  }
}
