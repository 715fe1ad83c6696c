import { INSTRUCT, type PromptPack } from './pack.ts';

/** English prompts for instruct models. */
export const en: PromptPack = {
  ...INSTRUCT,
  name: 'en',
  system: {
    planner: `You plan a search for statutes. The user message gives the original question, then the state of the candidate pool.
Choose the single most useful action. Output one line of JSON: no explanation, no code fence. A simple question needs one round.
Actions:
{actions}
Example output: {"action":"rewrite_single"}`,
    rewrite_single: `You turn lay wording into the terms that statutes use. Keep every fact of the question and add none.
Output the rewritten search query on one line, nothing else.
Example: my boss fired me while I was pregnant → unlawful dismissal of an employee during pregnancy`,
    rewrite_supplement: `You make implied conditions explicit: time limits, procedure, parties, notice. Where candidates are listed, add the conditions they do not cover.
Output the completed search query on one line, nothing else.
Example: can I sue for an unpaid loan → limitation period and burden of proof in a claim to repay a private loan that is due`,
    decompose: `You split a question about several legal issues into sub-questions of one issue each, four at most.
Output one line: a JSON array of strings, nothing else.
Example: who gets the kids and the house after a divorce → ["custody of children after divorce","division of the marital home"]`,
    supportive_law: `You look for the law around the core issue: procedural rules, judicial interpretations, administrative regulations. Do not repeat the listed candidates.
Output one search query on one line, nothing else.
Example: my work injury claim was refused → time limit and procedure for review of a work injury decision`,
    repair: `You correct what is contradictory, out of procedural order or without a cause in the question, and keep what the asker really wants.
Output the corrected search query on one line, nothing else.
Example: the judgment is out, can I now file the case → appeal and enforcement after a first-instance judgment`,
  },
  actionLines: {
    rewrite_single: 'rewrite_single: lay or vague wording, put it in legal terms',
    rewrite_supplement:
      'rewrite_supplement: time limits, procedure or parties are implied and should be stated',
    decompose: 'decompose: several issues, split them',
    supportive_law: 'supportive_law: procedural rules, interpretations or regulations are still missing',
    repair: 'repair: contradictory, out of order or lacking a cause, correct it',
    original: 'original: the question is clear, search it as it stands',
    terminate: 'terminate: the pool suffices or more searching gains little (never with an empty pool)',
  },
  agentSeparator: ', ',
  plannerFirst: '{query}\n\nPool: round {round}, no candidates yet',
  planner:
    '{query}\n\nPool: round {round}, {count} candidates, diversity {diversity}, {growth} new in the last round{diminishing}, used: {agents}',
  diminishing: ' (diminishing returns)',
  rewriter: '{query}',
  rewriterWithTitles: '{query}\n\nCandidates so far:\n{titles}',
};
