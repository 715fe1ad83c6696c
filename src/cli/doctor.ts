/** `lexpo doctor`: what would keep a run from starting or going well, a line each, with what to do about it. */
import type { Config } from '../config/schema.ts';
import { freeMemory } from '../trainer/memory-plan.ts';
import type { Model } from '../trainer/prepare.ts';
import { redisAddress } from '../trainer/redis-address.ts';
import { runFolder } from '../trainer/run-folder.ts';
import { checkAssistant, checkPrecedents, configuredAssistants } from './doctor/assistants-check.ts';
import { type Checklist, createChecklist, findingText, type Outcome } from './doctor/checklist.ts';
import { checkDisk, freeDisk } from './doctor/disk.ts';
import { checkEndpoint, checkRoundTrip, makeFolder } from './doctor/endpoint-checks.ts';
import { checkLearner } from './doctor/learner-check.ts';
import {
  checkConfig,
  checkCorpus,
  checkMemory,
  checkModel,
  checkNode,
  checkOverlap,
  checkQuestions,
  checkStart,
  checkWeights,
} from './doctor/machine-checks.ts';
import { checkRedis, checkResults } from './doctor/redis-check.ts';
import { checkInbox, checkRegistry, checkSchedules } from './doctor/retrain-checks.ts';
import { checkServing } from './doctor/serving-check.ts';
import { onInterrupt } from './interrupt.ts';
import type { Streams } from './main.ts';

export interface DoctorOptions {
  set: string[];
  json?: boolean;
}

/** What the checks ask the machine. */
export interface Machine {
  nodeVersion: string;
  /** Bytes of memory that this process may take. */
  freeMemory(): number;
  /** Bytes free on the disk of a folder. */
  freeDisk(folder: string): Promise<number>;
  /** Milliseconds since 1970. */
  now(): number;
}

const thisMachine: Machine = {
  nodeVersion: process.versions.node,
  freeMemory,
  freeDisk,
  now: Date.now,
};

/** Column of the names: the longest is `held-out questions`. */
const NAME_WIDTH = 18;

/**
 * Checks all that a configuration needs, and leaves nothing behind. Exit code: 0 when nothing failed, 1 when
 * something did, 130 or 143 when it was interrupted.
 */
export async function doctor(
  file: string,
  options: DoctorOptions,
  streams: Streams,
  machine = thisMachine,
): Promise<number> {
  const interrupt = onInterrupt((name) => streams.stderr.write(`${name}: stopping after this check\n`));
  try {
    const list = createChecklist((finding) => {
      if (!options.json) streams.stdout.write(`${findingText(finding, NAME_WIDTH)}\n`);
    }, interrupt.signal);
    await runChecks(list, file, options.set, machine);
    const failed = list.findings.filter(({ status }) => status === 'fail').length;
    const code = interrupt.exitCode() ?? (failed > 0 ? 1 : 0);
    if (options.json)
      streams.stdout.write(
        `${JSON.stringify({ config: file, ok: code === 0, checks: list.findings }, null, 2)}\n`,
      );
    return code;
  } finally {
    interrupt.stop();
  }
}

async function runChecks(list: Checklist, file: string, set: string[], machine: Machine): Promise<void> {
  await list.check('node', [], () => checkNode(machine.nodeVersion));
  const config = await list.check('config', [], () => checkConfig(file, set));
  const corpus = await list.check('corpus', [config], checkCorpus);
  const questions = (name: string, side: 'train' | 'validation') =>
    list.check(name, [config, corpus], (settings, articles) => checkQuestions(settings, side, articles));
  const train = await questions('training questions', 'train');
  const validation = await questions('held-out questions', 'validation');
  await list.check('overlap', [train, validation], checkOverlap);
  const found = await list.check('model', [config], checkModel);
  const model: Outcome<Model> =
    found.passed && found.value ? { ...found, value: found.value } : { name: 'model', passed: false };
  const weights = await list.check('weights', [model], checkWeights);
  if (config.passed && config.value.lora.start !== undefined)
    await list.check('start adapter', [config, model], checkStart);
  const memory = await list.check('memory', [config, model], (settings, shape) =>
    checkMemory(settings, corpus.passed ? corpus.value : null, shape, machine.freeMemory()),
  );
  const disk = await list.check('disk', [config], (settings) =>
    checkDisk(settings, model.passed ? model.value.config : null, machine.freeDisk),
  );
  if (config.passed && config.value.pool) {
    const pooled = { ...config, value: { ...config.value, pool: config.value.pool } };
    await list.check('redis', [pooled], (settings) => checkRedis(redisAddress(settings.pool), machine.now()));
    await list.check('results', [pooled], (settings) => checkResults(settings, machine.now()));
  }
  if (config.passed) {
    const { precedents } = config.value.data;
    if (precedents !== undefined) await list.check('precedents', [], () => checkPrecedents(precedents));
    for (const [role, settings] of configuredAssistants(config.value))
      await list.check(`${role} model`, [], () => checkAssistant(role, settings));
  }
  if (config.passed && config.value.retrain) {
    const { retrain, run } = config.value;
    await list.check('inbox', [], () => checkInbox(retrain));
    await list.check('registry', [], () => checkRegistry(retrain, machine.now()));
    await list.check('schedules', [], () => checkSchedules(retrain, run.name, machine.now()));
    if (retrain.serve) await list.check('champion servers', [], () => checkServing(retrain, run.name));
  }
  const learner = await list.check('learner', [config], checkLearner);
  await endpointChecks(list, { config, model, weights, memory, disk, learner }, machine.now());
}

interface Before {
  config: Outcome<Config>;
  model: Outcome<Model>;
  weights: Outcome<unknown>;
  memory: Outcome<unknown>;
  disk: Outcome<unknown>;
  learner: Outcome<unknown>;
}

async function endpointChecks(list: Checklist, before: Before, now: number): Promise<void> {
  const { config, model, weights, memory, disk, learner } = before;
  const adapters = config.passed ? runFolder(config.value).adapters : '';
  // A server elsewhere needs no memory here, and none of the weights.
  const here = config.passed && config.value.endpoint.kind === 'embedded' ? [weights, memory] : [];
  let clean = async (): Promise<void> => {};
  const service = await list.check('endpoint', [config, model, disk, ...here], async (settings, shape) => {
    clean = await makeFolder(adapters);
    return checkEndpoint(settings as Config, shape as Model, adapters);
  });
  try {
    await list.check(
      'adapter round trip',
      [config, model, service, learner, weights, memory],
      (settings, shape, policy) => checkRoundTrip(settings, shape, policy, adapters, now),
    );
  } finally {
    if (service.passed) await service.value.close();
    await clean();
  }
}
