/** When the hostile endpoint misbehaves, as plain data. */
import { stream } from '../../src/base/random.ts';
import type { Fault } from './faults.ts';

/** What a request asks for. `score`: a completion that asks for prompt_logprobs, as the publisher's proof does. */
export type Route =
  | 'health'
  | 'version'
  | 'models'
  | 'tokenize'
  | 'load'
  | 'unload'
  | 'completions'
  | 'score'
  | 'other';

/**
 * One rule. With `nth` it acts on the nth request of its route (from 1, counted from the start of the script),
 * with `probability` on that share of them, with neither on all.
 */
export interface Rule {
  route: Route;
  nth?: number;
  probability?: number;
  fault: Fault;
}

/**
 * The fault for each request in turn: the first rule that acts wins. Draws are by (seed, rule, route's count),
 * so that one route's traffic does not change another's faults.
 */
export function playScript(script: readonly Rule[], seed: number): (route: Route) => Fault | null {
  const counts = new Map<Route, number>();
  return (route) => {
    const count = (counts.get(route) ?? 0) + 1;
    counts.set(route, count);
    const rule = script.find(
      (one, i) =>
        one.route === route &&
        (one.nth === undefined || one.nth === count) &&
        (one.probability === undefined || stream(seed, 'fault', i, count).next() < one.probability),
    );
    return rule?.fault ?? null;
  };
}
