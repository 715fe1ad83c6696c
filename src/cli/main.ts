/** The command line: `lexpo <command>`. Each command is a file beside this one, read when it is asked for. */
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { writeError } from '../base/atomic-write.ts';
import { messageOf, UserError } from '../base/errors.ts';
import { version } from '../base/version.ts';
import { redisError } from '../rollout/pool/redis-refusal.ts';
import { endpointError } from '../rollout/rollout-failure.ts';

/** Exit codes: 0 done, 1 a mistake of the user's, 70 a fault of ours, 130 and 143 interrupted. */
const USER_MISTAKE = 1;
const OUR_FAULT = 70;

/** Where a command writes. `process` is one. */
export interface Streams {
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
}

/** Runs a command line (without node and program) and gives its exit code. Never throws. */
export async function runCli(args: readonly string[], streams: Streams = process): Promise<number> {
  let exitCode = 0;
  const program = createProgram(streams, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USER_MISTAKE;
    return reportError(error, streams.stderr);
  }
}

/** Says what went wrong, a fault of ours with its stack, and gives the exit code. */
export function reportError(thrown: unknown, stderr: Pick<NodeJS.WriteStream, 'write'>): number {
  const error = systemError(redisError(endpointError(thrown)));
  if (error instanceof UserError) {
    stderr.write(`lexpo: ${error.message}\n`);
    return USER_MISTAKE;
  }
  const stack = error instanceof Error ? error.stack : undefined;
  stderr.write(`lexpo: a fault of the program's own, please report it\n${stack ?? messageOf(error)}\n`);
  return OUR_FAULT;
}

/** What the file system refuses, wherever that comes up, is nobody's programming fault: a UserError. */
function systemError(error: unknown): unknown {
  const { code = '', syscall, path, message } = (error ?? {}) as NodeJS.ErrnoException;
  if (['ENOSPC', 'EDQUOT', 'EROFS'].includes(code)) return writeError(error, path ?? 'disk');
  if (syscall === undefined || path === undefined) return error;
  return new UserError(message, path, 'check the path, its permissions and the disk');
}

function createProgram(streams: Streams, exit: (code: number) => void): Command {
  const program = new Command('lexpo')
    .description('GRPO training for the planner/rewriter policy of agentic legal retrieval')
    .version(version(), '-v, --version')
    .configureOutput({
      writeOut: (text) => streams.stdout.write(text),
      writeErr: (text) => streams.stderr.write(text),
    })
    .exitOverride()
    .showSuggestionAfterError();

  program
    .command('train')
    .description('train a policy as a configuration says')
    .argument('<config>', 'YAML file, such as configs/quickstart.yaml')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .option('--seed <n>', 'sets every random stream', whole(0, 2 ** 31 - 1))
    .option('--dry-run', 'print the resolved configuration and the plan, and train nothing')
    .option('--resume', 'go on from the newest checkpoint of the run folder')
    .option('--fresh', 'remove what an earlier run of this name left, and start anew')
    .action(async (config, options) =>
      exit(await (await import('./train.ts')).train(config, options, streams)),
    );

  program
    .command('eval')
    .description('held-out figures of a run or a base model')
    .argument('<run or config>', 'folder of a run, or YAML file')
    .option('--adapter <folder>', "an adapter in PEFT format (default: a run's chosen one, else none)")
    .option('--baselines', 'also the baselines that need no language model')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .action(async (target, options) => (await import('./eval.ts')).evaluate(target, options, streams));

  program
    .command('rollout')
    .description('one question: every call, round, reward term and advantage')
    .argument('<run or config>', 'folder of a run, or YAML file')
    .option('--query <text>', 'any question')
    .option('--gold <ids>', 'gold article ids of that question, separated by commas')
    .option('--query-id <id>', 'a question of the training or held-out file')
    .option('--adapter <folder>', "an adapter in PEFT format (default: a run's chosen one, else none)")
    .option('--members <n>', 'rollouts of the question (default: the group size)', whole(1, 1024))
    .option('--seed <n>', 'sets every random stream', whole(0, 2 ** 31 - 1))
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .action(async (target, options) => (await import('./rollout.ts')).rollout(target, options, streams));

  program
    .command('serve')
    .description('serve a model and its adapters by the OpenAI protocol')
    .argument('<model folder>', 'a folder in Hugging Face layout')
    .option('--port <n>', 'port to listen on; 0: any', whole(0, 65_535), 8000)
    .option('--host <address>', 'address to bind to; other than loopback needs a key', '127.0.0.1')
    .option(
      '--adapters <folder>',
      'adapters are loaded from below this folder only (default: runs, made if absent)',
    )
    .option('--api-key-env <name>', 'environment variable that holds the key that requests must bring')
    .option('--threads <n>', 'threads of the engine', whole(1, 1024), 2)
    .action(async (folder, options) =>
      exit(await (await import('./serve.ts')).serve(folder, options, streams)),
    );

  program
    .command('doctor')
    .description('check what a configuration needs: a line each, with what to do; 0 when nothing failed')
    .argument('<config>', 'YAML file, such as configs/quickstart.yaml')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .option('--json', 'all findings as one JSON object, for programs')
    .action(async (config, options) =>
      exit(await (await import('./doctor.ts')).doctor(config, options, streams)),
    );

  program
    .command('worker')
    .description('roll out for the trainer of a run, over the Redis of its section pool')
    .argument('<config>', "YAML file: the trainer's")
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .option('--seed <n>', 'sets every random stream', whole(0, 2 ** 31 - 1))
    .option('--concurrency <n>', 'rollouts under way at once', whole(1, 1024), 16)
    .action(async (config, options) =>
      exit(await (await import('./worker.ts')).worker(config, options, streams)),
    );

  program
    .command('status')
    .description('how a run stands: step, figures, queues, workers, rates, replicas, retraining')
    .argument('<config>', 'YAML file of the run')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .option('--json', 'one JSON object, for programs')
    .option('--watch', 'again every two seconds, until it is interrupted')
    .action(async (config, options) =>
      exit(await (await import('./status.ts')).status(config, options, streams)),
    );

  program
    .command('export')
    .description('write an adapter in PEFT format, or the merged model, with a model card')
    .argument('<run or adapter>', 'folder of a run, or of an adapter in PEFT format')
    .requiredOption('--out <folder>', 'where to write it')
    .option('--merged', 'the base model with the adapter merged into its weights')
    .option('--checkpoint <which>', "best, last, or an adapter's name (default: the run's chosen one)")
    .option('--base <folder>', 'the base model (default: what the run or the adapter names)')
    .option('--base-name <id>', "the base model's name on the Hugging Face hub")
    .option('--force', 'replace an earlier export there')
    .action(async (target, options) =>
      exit(await (await import('./export.ts')).exportCommand(target, options, streams)),
    );

  program
    .command('retrain')
    .description('one retraining job now: collect pairs, train, compare with the champion, promote if better')
    .argument('<config>', 'YAML file with a section retrain, such as configs/nightly.yaml')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .option('--fresh', 'give an unfinished job up instead of going on with it')
    .option('--history', 'show what the jobs so far have done, and do nothing')
    .option('--rollback [adapter]', 'go back to the champion before this one, or to the one named')
    .option('--serve', 'have every server of retrain.serve serve the champion, and do nothing else')
    .action(async (config, options) =>
      exit(await (await import('./retrain.ts')).retrainCommand(config, options, streams)),
    );

  program
    .command('schedule')
    .description('retraining by the clock, over Redis: set a schedule, look at it, and do its jobs')
    .argument('<config>', 'YAML file with a section retrain, such as configs/nightly.yaml')
    .option('--cron <pattern>', 'set the schedule of this configuration, such as "0 3 * * *"')
    .option('--tz <zone>', 'time zone of the pattern, such as Europe/Berlin', 'UTC')
    .option('--list', 'show the schedules on this Redis')
    .option('--remove', 'remove the schedule of this configuration')
    .option('--now', 'ask for one job beside the schedule')
    .option('--work', 'be the process that does the jobs, until it is told to end')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .action(async (config, options) =>
      exit(await (await import('./schedule.ts')).schedule(config, options, streams)),
    );

  program
    .command('import')
    .description('question sets (lawbench, lexeval) and precedents (judge, lecardv2) as files of ours')
    .argument('<shape>', 'lawbench, lexeval, judge or lecardv2')
    .argument('<file>', 'JSON Lines of that shape')
    .requiredOption('--corpus <file>', 'articles that the answers cite')
    .requiredOption('--out <file>', 'where to write, .jsonl or .jsonl.gz')
    .option(
      '--hold-out <share>',
      'so much of the questions goes into a second file, .held-out.jsonl',
      fraction,
    )
    .option('--seed <n>', 'of that draw', whole(0, 2 ** 31 - 1), 1)
    .option(
      '--without-gold',
      'keep what cites no article and has an answer: it trains the Lawyer, with a critic',
    )
    .option('--force', 'replace earlier files')
    .action(async (shape, file, options) =>
      (await import('./import.ts')).importCommand(shape, file, options, streams),
    );

  program
    .command('synthesize')
    .description("demonstrations: a teacher's episodes of the training questions, the right and clean ones")
    .argument('<config>', 'YAML file; its assistants.teacher plays, else the stand-in that knows the gold')
    .requiredOption('--out <file>', 'where to write them, .jsonl or .jsonl.gz; a report goes beside it')
    .option('--rollouts <n>', 'episodes a question', whole(1, 1000), 2)
    .option('--accept <worth>', 'least answer accuracy (recall for LegalMALR) that is kept', fraction, 0.5)
    .option('--test <file>', 'a further test file that must not be given away; may be repeated', collect, [])
    .option('--ngram <n>', 'characters of a fingerprint', whole(1, 1000), 20)
    .option('--max-overlap <share>', "refuse texts with so much of a test text's fingerprints", fraction, 0.3)
    .option('--force', 'replace an earlier file')
    .option('--seed <n>', 'sets every random stream', whole(0, 2 ** 31 - 1))
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .action(async (config, options) =>
      exit(await (await import('./synthesize.ts')).synthesizeCommand(config, options, streams)),
    );

  program
    .command('sft')
    .description('an adapter from demonstrations alone, for GRPO to start from (lora.start)')
    .argument('<config>', 'YAML file with a section sft')
    .requiredOption('--out <folder>', 'where to write the adapter')
    .option('--demonstrations <file>', 'a file of lexpo synthesize (default: sft.demonstrations)')
    .option('--seed <n>', 'sets every random stream', whole(0, 2 ** 31 - 1))
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .action(async (config, options) =>
      exit(await (await import('./sft.ts')).sftCommand(config, options, streams)),
    );

  program
    .command('build-model')
    .description("make a configuration's base model, if it says how and the folder is absent")
    .argument('<config>', 'YAML file with a section model.build')
    .option('--set <path=value>', 'set a key of the configuration; may be repeated', collect, [])
    .action(async (config, options) =>
      (await import('./build-model.ts')).buildModel(config, options, streams),
    );

  return program;
}

const collect = (value: string, before: string[]): string[] => [...before, value];

/** A share, in [0, 1]. */
const fraction = (text: string): number => {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('It must be a number from 0 to 1.');
};

/** A parser of whole numbers from `least` to `most`. */
const whole =
  (least: number, most: number) =>
  (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number, at least ${least}, at most ${most}.`);
  };
