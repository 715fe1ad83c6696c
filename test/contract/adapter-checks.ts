/** Contract: adapters at run time. Names are never used twice, as the trainer never does. */
import {
  type Check,
  completionBody,
  demand,
  demandError,
  gapText,
  largestGap,
  SAME,
  type Session,
  score,
  show,
} from './contract.ts';

async function cardOf({ get }: Session, name: string) {
  const { json } = await get('/v1/models');
  return json.data.find(({ id }: { id: string }) => id === name);
}

/** Loads `path` under `name`, does something with it, and unloads it whatever happens. */
async function withAdapter<T>(
  session: Session,
  name: string,
  path: string,
  use: () => Promise<T>,
): Promise<T> {
  const loaded = await session.load(name, path);
  demand(loaded.status === 200, `load: ${loaded.status} ${loaded.text.slice(0, 300)}`);
  try {
    return await use();
  } finally {
    await session.unload(name);
  }
}

/** A load that must fail, with one of `statuses`, and must leave nothing behind. */
async function refused(session: Session, path: string, name: string, statuses: number[], about: RegExp) {
  const seen = demandError(await session.load(name, path), statuses, about);
  demand((await cardOf(session, name)) === undefined, `${name} is listed though its load failed`);
  await session.complete();
  return seen;
}

/** 24 greedy requests at once to `models` in turn, each held against the same request before any other. */
async function mixed(session: Session, tag: string, models: string[]): Promise<string> {
  const { adapters } = session;
  const ask = async (model: string): Promise<number[]> => {
    const answer = await session.complete({ model, temperature: 0, ignore_eos: true });
    demand(answer.model === model, `asked for ${model}, answered by ${answer.model}`);
    return answer.choices[0]!.logprobs!.token_logprobs as number[];
  };
  const alone = new Map<string, number[]>();
  if (models.includes(session.baseModel)) alone.set(session.baseModel, await ask(session.baseModel));
  return withAdapter(session, `contract-${tag}-1`, adapters.first, async () => {
    alone.set(`contract-${tag}-1`, await ask(`contract-${tag}-1`));
    return withAdapter(session, `contract-${tag}-2`, adapters.second, async () => {
      alone.set(`contract-${tag}-2`, await ask(`contract-${tag}-2`));
      const asked = Array.from({ length: 24 }, (_, i) => models[i % models.length]!);
      const together = await Promise.all(asked.map(ask));
      const gaps = together.map((logprobs, i) => largestGap(logprobs, alone.get(asked[i]!)!));
      demand(Math.max(...gaps) <= SAME, gapText(Math.max(...gaps)));
      return `24 requests, ${gapText(Math.max(...gaps))}`;
    });
  });
}

export const adapterChecks: Check[] = [
  {
    name: 'a load answers 200 in plain text; the card names its folder and its parent',
    async run(session) {
      const path = session.adapters.first;
      const answer = await session.load('contract-listed', path);
      demand(answer.status === 200, `${answer.status} ${answer.text.slice(0, 300)}`);
      demand(/^Success: LoRA adapter 'contract-listed' added successfully\.$/.test(answer.text), answer.text);
      demand(answer.json === null, 'the answer is JSON');
      const card = await cardOf(session, 'contract-listed');
      demand(card?.root === path && card.parent === session.baseModel, `card ${show(card)}`);
      const gone = await session.unload('contract-listed');
      demand(
        gone.status === 200 &&
          /^Success: LoRA adapter 'contract-listed' removed successfully\.$/.test(gone.text),
        `${gone.status} ${gone.text}`,
      );
      demand((await cardOf(session, 'contract-listed')) === undefined, 'listed after its unload');
      return 'root is lora_path';
    },
  },
  {
    name: 'adapters change the log-probabilities, each in its way',
    async run(session) {
      const { baseModel, promptIds, adapters } = session;
      const base = (await score(session, baseModel, promptIds)).logprobs;
      return withAdapter(session, 'contract-one', adapters.first, () =>
        withAdapter(session, 'contract-two', adapters.second, async () => {
          const names = ['contract-one', 'contract-two'];
          const [one, two] = await Promise.all(
            names.map(async (name) => (await score(session, name, promptIds)).logprobs),
          );
          const apart = [largestGap(one!, base), largestGap(two!, base), largestGap(one!, two!)];
          demand(Math.min(...apart) > 10 * SAME, `no difference: ${apart.map(gapText).join(', ')}`);
          return `${apart.map((x) => x.toFixed(2)).join(', ')} nats apart`;
        }),
      );
    },
  },
  {
    name: 'an answer names the adapter; its log-probabilities are those of its prompt_logprobs',
    async run(session) {
      return withAdapter(session, 'contract-named', session.adapters.first, async () => {
        const { model, choices } = await session.complete({ model: 'contract-named' });
        demand(model === 'contract-named', `answered by ${model}`);
        const output = choices[0]!;
        const whole = [...session.promptIds, ...output.token_ids];
        const { logprobs } = await score(session, 'contract-named', whole);
        const given = (output.logprobs?.token_logprobs ?? []) as number[];
        const found = largestGap(given, logprobs.slice(session.promptIds.length - 1));
        demand(found <= SAME, gapText(found));
        return gapText(found);
      });
    },
  },
  {
    name: 'two adapters in one batch answer what each answers alone',
    run: (session) => mixed(session, 'apart', ['contract-apart-1', 'contract-apart-2']),
  },
  {
    name: 'the base model in one batch with adapters answers what it answers alone',
    run: (session) => mixed(session, 'among', [session.baseModel, 'contract-among-1', 'contract-among-2']),
  },
  {
    name: 'after an unload the name is a 404',
    run: (session) =>
      withAdapter(session, 'contract-gone', session.adapters.first, async () => {
        await session.complete({ model: 'contract-gone' });
        await session.unload('contract-gone');
        const body = completionBody(session, { model: 'contract-gone' });
        return demandError(await session.post('/v1/completions', body), [404], /does not exist/);
      }),
  },
  {
    name: 'a name that is loaded is not loaded again: 400 "has already been loaded", and the old one stays',
    run: (session) =>
      withAdapter(session, 'contract-twice', session.adapters.first, async () => {
        const { first, second } = session.adapters;
        const seen = demandError(
          await session.load('contract-twice', first),
          [400],
          /has already been loaded/,
        );
        demandError(await session.load('contract-twice', second), [400], /has already been loaded/);
        demand((await cardOf(session, 'contract-twice'))?.root === first, 'its folder has changed');
        return seen;
      }),
  },
  {
    name: 'a load without its fields is a 400, and so is an unload',
    async run({ post }) {
      const wanted = /lora_name|lora_path/;
      const load = '/v1/load_lora_adapter';
      for (const body of [{}, { lora_name: 'x' }, { lora_path: '/x' }, { lora_name: '', lora_path: '' }])
        demandError(await post(load, body), [400], wanted);
      return demandError(await post('/v1/unload_lora_adapter', {}), [400], wanted);
    },
  },
  {
    name: 'the base model’s name is a 400',
    run: async (session) =>
      demandError(await session.load(session.baseModel, session.adapters.first), [400], /base model/),
  },
  {
    name: 'a folder that is not there is a 404 "No adapter found"',
    run: (session) =>
      refused(session, `${session.adapters.first}-absent`, 'contract-absent', [404], /No adapter found/),
  },
  {
    name: 'a rank above the ceiling is refused, by name, with nothing loaded',
    run: (session) => refused(session, session.adapters.tooWide, 'contract-wide', [400, 500], /rank/i),
  },
  {
    name: 'a broken folder is refused with nothing loaded, and the server goes on',
    run: (session) => refused(session, session.adapters.broken, 'contract-broken', [400, 500], /./),
  },
  {
    name: 'an unload of an unknown name is a 404',
    run: async (session) => demandError(await session.unload('contract-never'), [404], /cannot be found/),
  },
  {
    name: 'more adapters in turn than there is room for at once: each answers for itself',
    async run(session) {
      const { adapters, promptIds } = session;
      const found: number[][] = [];
      for (let i = 0; i < 6; i++) {
        const path = i % 2 === 0 ? adapters.first : adapters.second;
        found.push(
          await withAdapter(session, `contract-turn-${i}`, path, async () => {
            return (await score(session, `contract-turn-${i}`, promptIds)).logprobs;
          }),
        );
      }
      const gaps = found.map((one, i) => largestGap(one, found[i % 2]!));
      demand(Math.max(...gaps) <= SAME, gapText(Math.max(...gaps)));
      demand(largestGap(found[0]!, found[1]!) > 10 * SAME, 'both folders answer the same');
      return `6 loads, ${gapText(Math.max(...gaps))}`;
    },
  },
];
