/** What `lexpo synthesize` says at its end. */
import { formatTable } from '../../report/tables.ts';
import type { SynthesisReport } from './synthesize.ts';

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

/** A few lines and a table of the sources. */
export function synthesisText({
  teacher,
  unplayable,
  episodes,
  failures,
  invalid: reasons,
  meanWorth,
  contamination,
}: SynthesisReport): string {
  const { played, kept, failed, invalid, wrong, contaminated } = episodes;
  const { ngram, maxOverlap, tests, sources } = contamination;
  return [
    `${teacher}: ${played} episodes played, ${kept} kept; ${failed} failed, ${invalid} invalid, ` +
      `${wrong} wrong, ${contaminated} contaminated`,
    `mean worth ${meanWorth.played.toFixed(3)} of what was played, ${meanWorth.kept.toFixed(3)} of what is kept`,
    ...(unplayable > 0 ? [`${unplayable} questions without gold: only a model can play them`] : []),
    ...failures.map((reason) => `failed: ${reason}`),
    ...reasons.map(({ reason, episodes: times }) => `invalid, ${times} times: ${reason}`),
    '',
    `held against ${tests.map(({ file, texts }) => `${texts} texts of ${file}`).join(', ')}: ` +
      `refused from ${percent(maxOverlap)} of a test text's ${ngram}-grams on`,
    formatTable(
      ['source', 'texts', 'refused', 'worst'],
      sources.map(({ source, texts, refused }) => [
        source,
        String(texts),
        String(refused.length),
        refused.length === 0 ? null : percent(Math.max(...refused.map(({ share }) => share))),
      ]),
    ),
  ].join('\n');
}
