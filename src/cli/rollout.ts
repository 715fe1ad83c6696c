/** `lexpo rollout`: one question, everything that happens. */
import { UserError } from '../base/errors.ts';
import { createScreen } from '../report/progress.ts';
import { rolloutText } from '../report/rollout-text.ts';
import { inspectQuestion, type Question } from '../trainer/inspect.ts';
import type { Streams } from './main.ts';
import { readTarget } from './target.ts';

export interface RolloutOptions {
  set: string[];
  seed?: number;
  query?: string;
  gold?: string;
  queryId?: string;
  adapter?: string;
  members?: number;
}

export async function rollout(target: string, options: RolloutOptions, streams: Streams): Promise<void> {
  const question = questionOf(options);
  const { config, adapter } = await readTarget(target, options);
  const screen = createScreen(streams.stdout, () => performance.now());
  const members = options.members ?? config.rollout.groupSize;
  const { query, results, scored } = await inspectQuestion({
    config,
    adapter,
    question,
    members,
    log: screen.print,
  });
  screen.print(rolloutText(query, results, scored));
}

function questionOf({ query, gold, queryId }: RolloutOptions): Question {
  const hint = 'give --query "…" (and --gold id,id where known), or --query-id <id>';
  if ((query === undefined) === (queryId === undefined))
    throw new UserError('exactly one of --query and --query-id is needed', 'rollout', hint);
  if (queryId !== undefined) {
    if (gold !== undefined) throw new UserError('a question of the data has its own gold', '--gold', hint);
    return { queryId };
  }
  const ids = (gold ?? '').split(',').map((id) => id.trim());
  return { text: query!, gold: [...new Set(ids.filter((id) => id !== ''))] };
}
