/** The history as a person reads it. */
import { figureName, gainText } from './decide.ts';
import type { HistoryRecord } from './records.ts';

/** One line: when, what, of which job, and why. */
export function recordLine({ at, kind, run, after, why }: HistoryRecord): string {
  const what = kind === 'promoted' || kind === 'rolled-back' ? `${kind}: ${after ?? 'no champion'}` : kind;
  return `${at.slice(0, 19).replace('T', ' ')}  ${what}${run ? `  (${run})` : ''}: ${why}`;
}

/** Newest last; a job's figures and pairs on lines below it. */
export function historyTable(history: readonly HistoryRecord[]): string {
  if (history.length === 0) return 'no job has ended here yet\n';
  return history
    .map((record) => {
      const { pairs, figures, trainingSet, before, by } = record;
      const details = [
        ...(figures ? [`${figureName(figures)} ${gainText(figures)}, ${figures.questions} questions`] : []),
        ...(before === undefined ? [] : [`champion before: ${before ?? 'none'}`]),
        ...(pairs
          ? [
              `pairs: ${pairs.train} new, ${pairs.heldOut} held out, ${pairs.known} known, ${pairs.refused} refused`,
            ]
          : []),
        ...(trainingSet ? [`training set ${trainingSet.hash}: ${trainingSet.questions} questions`] : []),
        `by ${by.trigger} on ${by.host}`,
      ];
      return `${recordLine(record)}\n${details.map((text) => `    ${text}\n`).join('')}`;
    })
    .join('');
}
