/** The record of a reward: every term with its raw and its weighted value, and their sum. */
import { z } from 'zod';

/** One term: `value = raw × weight`. `total`: the sum of the values, which is the reward. */
export const ledgerSchema = z.strictObject({
  terms: z.array(
    z.strictObject({ name: z.string(), raw: z.number(), weight: z.number(), value: z.number() }),
  ),
  total: z.number(),
});
export type Ledger = z.infer<typeof ledgerSchema>;
