/** `README.md` of an export: a Hugging Face model card that says what the run recorded, and nothing else. */
import { basename } from 'node:path';
import { stringify } from 'yaml';
import type { Config } from '../../config/schema.ts';
import { loraScale } from '../../engine/peft.ts';
import type { LoraSpec } from '../../engine/types.ts';
import type { EvalFigures } from '../../report/tables.ts';
import type { HeldOut, RunFacts } from './run-facts.ts';
import { type BaseName, isPrivatePath } from './source.ts';
import { maxLoraRank } from './vllm-problems.ts';

export interface CardFacts {
  /** The adapter's name. */
  name: string;
  merged: boolean;
  base: BaseName;
  spec: LoraSpec;
  /** Trained parameters. */
  parameters: number;
  /** Null for an adapter that lies in no run. */
  run: RunFacts | null;
  /** Whether the adapter was picked among the run's for its held-out figures. */
  pickedOnHeldOut: boolean;
  /** Of the program that wrote the export. */
  version: string;
}

/** The card's Markdown, front matter included. */
export function modelCard(facts: CardFacts): string {
  const sections = [
    frontMatter(facts),
    introduction(facts),
    ...(facts.run
      ? [heldOut(facts.run), trainedOn(facts.run), method(facts.run), expects(facts.run.config)]
      : []),
    adapter(facts),
    use(facts),
    limits(facts),
    `Written by \`lexpo export\`, version ${facts.version}.`,
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

/** Text of others inside a line or a table cell: no markup, no line breaks. */
const code = (text: string): string => `\`${text.replace(/[`|\s]+/g, ' ').trim()}\``;

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function frontMatter({ base, merged }: CardFacts): string {
  const fields = {
    // The hub takes names only; a folder's name would be refused, or be somebody else's model.
    ...(base.hub ? { base_model: base.name } : {}),
    library_name: merged ? 'transformers' : 'peft',
    pipeline_tag: 'text-generation',
    tags: [...(merged ? [] : ['lora']), 'grpo', 'legal', 'statute-retrieval', 'lexpo'],
  };
  return `---\n${stringify(fields)}---`;
}

function introduction({ name, merged, base, run }: CardFacts): string {
  const what = merged ? 'The base model with a LoRA adapter merged into its weights' : 'A LoRA adapter';
  const lines = [`# ${name}`, ''];
  if (!run)
    return [...lines, `${what}. Base model: ${code(base.name)}. How it was trained was not recorded.`].join(
      '\n',
    );
  const { steps } = run.config.train;
  const at = run.step === null ? '' : `, after ${run.step} of ${steps} GRPO steps`;
  return [
    ...lines,
    `${what}, for the planner and the rewriters of agentic statute retrieval. Base model: ${code(base.name)}.`,
    `Trained with lexpo: run ${code(run.config.run.name)}${at}, seed ${run.config.run.seed}.`,
  ].join('\n');
}

const points = (x: number): string => `${x >= 0 ? '+' : ''}${(100 * x).toFixed(1)}`;

function heldOut({ heldOut: found, config }: RunFacts): string {
  if (!found) return '## Held-out figures\n\nNone were recorded for this adapter.';
  const { k } = config.eval;
  const questions = found.questions === null ? '' : ` ${found.questions} questions.`;
  return [
    '## Held-out figures',
    `Greedy answers.${questions}`,
    table(
      ['', `recall@${k}`, `mrr@${k}`, `ndcg@${k}`, 'invalid endings', 'rounds', 'pool'],
      found.rows.map(({ name, figures }) => [name, ...figureCells(figures)]),
    ),
    ...gains(found, k),
  ].join('\n\n');
}

function figureCells(f: EvalFigures): string[] {
  const fixed = (value: number | undefined, digits: number): string => value?.toFixed(digits) ?? '';
  const invalid = f.invalidRate === undefined ? '' : `${(100 * f.invalidRate).toFixed(1)} %`;
  return [
    ...[f.recall, f.mrr, f.ndcg].map((value) => fixed(value, 3)),
    invalid,
    fixed(f.meanRounds, 2),
    fixed(f.meanPool, 1),
  ];
}

function gains({ comparisons }: HeldOut, k: number): string[] {
  if (comparisons.length === 0) return [];
  return [
    `Gains in recall@${k}, in points, paired by question, with 95 % bootstrap intervals ("before" and "after": ` +
      'GRPO). An interval that contains 0 establishes no gain.',
    table(
      ['', 'over', 'questions', 'gain', '95 % interval'],
      comparisons.map(({ what, over, questions, gain }) => [
        what,
        over,
        String(questions),
        points(gain.mean),
        `[${points(gain.low)}, ${points(gain.high)}]`,
      ]),
    ),
  ];
}

function trainedOn({ inputs, config }: RunFacts): string {
  const { data } = config;
  const row = (what: string, kind: 'corpus' | 'train' | 'validation', unit: string): string[] => {
    const known = inputs?.[kind];
    const name = code(known?.file ?? basename(data[kind]));
    return [what, name, ...(inputs ? [`${known!.count} ${unit}`, code(known!.sha256)] : [])];
  };
  return [
    '## Data',
    table(
      ['', 'file', ...(inputs ? ['', 'SHA-256'] : [])],
      [
        row('searched', 'corpus', 'articles'),
        row('trained on', 'train', 'questions'),
        row('held out', 'validation', 'questions'),
      ],
    ),
  ].join('\n\n');
}

/** The settings as the run had them, in a form that a configuration takes. */
function method({ config }: RunFacts): string {
  const {
    loss,
    advantage,
    rollout,
    train,
    sft,
    reward,
    retrieval,
    env,
    optimizer,
    lora,
    eval: evaluation,
  } = config;
  const start = sft
    ? 'A supervised warm start on demonstrated episodes, then GRPO'
    : lora.start === undefined
      ? 'GRPO from a fresh adapter'
      : `GRPO from the adapter ${code(basename(lora.start))}`;
  const settings = {
    env,
    retrieval,
    rollout,
    reward,
    advantage,
    loss,
    optimizer,
    lora,
    sft,
    train,
    eval: evaluation,
  };
  return [
    '## Method',
    `${start}: ${rollout.queriesPerStep} questions × ${rollout.groupSize} episodes a step, loss ${code(loss.kind)}.`,
    `<details><summary>Settings, as the run resolved them</summary>\n\n\`\`\`yaml\n${stringify(withoutPlaces(settings))}\`\`\`\n\n</details>`,
  ].join('\n\n');
}

/** Without what names a machine: absolute paths keep their last part, addresses go. */
function withoutPlaces(value: unknown): unknown {
  if (typeof value === 'string') {
    if (/^[a-z][a-z+.-]*:\/\//i.test(value)) return '(an address)';
    return isPrivatePath(value) ? value.split(/[\\/]/).at(-1) : value;
  }
  if (Array.isArray(value)) return value.map(withoutPlaces);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutPlaces(inner)]));
}

function expects({ env, rollout, retrieval }: Config): string {
  return [
    '## What it expects',
    `The environment ${code(env.kind)} with the prompts ${code(env.prompts)}, ` +
      `at most ${env.kind === 'malr' ? `${env.maxRounds} rounds` : `${env.maxTurns} turns`}, ` +
      `first-stage search ${code(retrieval.kind)} (${retrieval.topK} found, ${retrieval.keep} kept a search). ` +
      `It was sampled at temperature ${rollout.temperature}, with at most ${tokensOf(env.kind, rollout.maxTokens)}; prompts are rendered by the base model's chat ` +
      'template. `lexpo rollout <run or config> --query "…" --adapter <this folder>` shows one question.',
  ].join('\n\n');
}

const tokensOf = (
  kind: Config['env']['kind'],
  { planner, rewriter, lawyer }: Config['rollout']['maxTokens'],
): string =>
  kind === 'malr'
    ? `${planner} tokens for the planner and ${rewriter} for a rewriter`
    : `${lawyer} tokens a turn`;

function adapter({ spec, parameters, merged }: CardFacts): string {
  const { r, alpha, rslora, targets } = spec;
  return [
    '## Adapter',
    `LoRA, rank ${r}, alpha ${alpha}${rslora ? ' (rsLoRA)' : ''}, so B·A counts ${Number(loraScale(spec).toPrecision(6))} times, ` +
      `on ${targets.map(code).join(', ')} of every layer: ${parameters.toLocaleString('en-US')} parameters.` +
      (merged ? " It is added into the weights, which keep the base model's dtypes and files." : ''),
  ].join('\n\n');
}

function use({ name, merged, base, spec }: CardFacts): string {
  if (merged)
    return [
      '## Use',
      '```sh\nvllm serve <this folder>\n```',
      '```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n' +
        'model = AutoModelForCausalLM.from_pretrained("<this folder>")\n' +
        'tokenizer = AutoTokenizer.from_pretrained("<this folder>")\n```',
    ].join('\n\n');
  const served = name.replace(/[^\w.-]+/g, '-');
  const of = base.hub ? base.name : '<base model>';
  return [
    '## Use',
    `With vLLM, as the model ${code(served)}:`,
    `\`\`\`sh\nvllm serve ${of} --enable-lora --max-lora-rank ${maxLoraRank(spec.r)} --lora-modules ${served}=<this folder>\n\`\`\``,
    'With PEFT:',
    '```python\nfrom peft import PeftModel\nfrom transformers import AutoModelForCausalLM\n\n' +
      `model = AutoModelForCausalLM.from_pretrained("${of}")\n` +
      'model = PeftModel.from_pretrained(model, "<this folder>")\n```',
  ].join('\n\n');
}

function limits({ run, pickedOnHeldOut }: CardFacts): string {
  const lines = [
    ...(run
      ? [
          '- It plans and rewrites searches. It is not trained to answer legal questions.',
          '- The figures hold for these prompts, this corpus and this retrieval; nothing else was measured.',
          ...(pickedOnHeldOut
            ? [
                '- The adapter was picked among those of its run on the held-out questions, which flatters its figures.',
              ]
            : []),
        ]
      : []),
    "- The base model's licence and limits apply.",
  ];
  return ['## Limits', lines.join('\n')].join('\n\n');
}
