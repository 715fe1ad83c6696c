/**
 * Demonstrations on disk, as `lexpo synthesize` leaves them and `lexpo sft` reads them: one episode a line, with
 * every call as the teacher saw and wrote it, what it found, and how it was scored.
 */
import { z } from 'zod';
import { UserError } from '../../base/errors.ts';
import { readJsonLines, writeJsonLines } from '../../base/jsonl.ts';
import type { DemonstratedEpisode } from '../../env/demonstration.ts';
import { episodeSchema } from '../../env/episode.ts';
import type { Reference } from '../../reward/lawyer/alignment.ts';
import type { Ledger } from '../../reward/ledger-schema.ts';
import { ledgerSchema } from '../../reward/ledger-schema.ts';

const messageSchema = z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: z.string() });
const callSchema = z.strictObject({
  role: z.string(),
  round: z.number().int().min(0),
  messages: z.array(messageSchema).min(1),
  text: z.string(),
});
const { calls: _, ...outcome } = episodeSchema.shape;
export const demonstrationSchema = z.strictObject({
  queryId: z.string().min(1),
  rollout: z.number().int().min(0),
  /** Name of the model, or of its stand-in. */
  teacher: z.string().min(1),
  calls: z.array(callSchema).min(1),
  ...outcome,
  ledger: ledgerSchema,
});
export type DemonstrationRecord = z.infer<typeof demonstrationSchema>;

/** The record of a played and scored episode. */
export function demonstrationRecord(
  { queryId, rollout, calls, episode }: DemonstratedEpisode,
  teacher: string,
  ledger: Ledger,
): DemonstrationRecord {
  const { calls: _, ...rest } = episode;
  const told = calls.map(({ role, round, messages, text }) => ({ role, round, messages, text }));
  return { queryId, rollout, teacher, calls: told, ...rest, ledger };
}

/** The searches of each question's first demonstrated episode, in order: what alignment is measured against. */
export function referencesOf(records: readonly DemonstrationRecord[]): ReadonlyMap<string, Reference> {
  const references = new Map<string, Reference>();
  for (const { queryId, rounds } of records) {
    if (references.has(queryId)) continue;
    const searches = rounds.flatMap(({ agent, queries: [query] }) =>
      (agent === 'STATUTE' || agent === 'PRECEDENT') && query !== undefined ? [{ kind: agent, query }] : [],
    ) as Reference;
    references.set(queryId, searches);
  }
  return references;
}

/** Whole or not at all; `.gz` is compressed. */
export const writeDemonstrations = (path: string, records: readonly DemonstrationRecord[]): Promise<void> =>
  writeJsonLines(path, records);

/** UserError that names file and line for whatever is no demonstration, and for a file without any. */
export async function readDemonstrations(path: string): Promise<DemonstrationRecord[]> {
  const records: DemonstrationRecord[] = [];
  await readJsonLines(path, demonstrationSchema, (record) => records.push(record));
  if (records.length === 0)
    throw new UserError('there are no demonstrations', path, 'make some with lexpo synthesize');
  return records;
}
