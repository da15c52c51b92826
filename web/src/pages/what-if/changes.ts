import type { Schemas } from "@/api/client";

export const KINDS = [
  { value: "demand", label: "Demand" },
  { value: "price", label: "Price" },
  { value: "availability", label: "Availability" },
  { value: "without", label: "Without" },
  { value: "slo", label: "Objective" },
] as const;
export type Kind = (typeof KINDS)[number]["value"];

/** The offers that are meant: what is empty is any. */
export type Where = { cloud: string; region: string; gpu: string; market: string };

export type Change = {
  kind: Kind;
  where: Where;
  /** The fleet's name of it; empty: all. */
  model: string;
  /** What was typed: a factor, a number of nodes, or milliseconds. */
  amount: string;
  objective: "ttft_ms" | "tpot_ms";
};

const FIRST: Record<Kind, string> = { demand: "1.5", price: "1.2", availability: "0", without: "", slo: "" };

export function newChange(kind: Kind): Change {
  return { kind, where: { cloud: "", region: "", gpu: "", market: "" }, model: "", amount: FIRST[kind], objective: "tpot_ms" };
}

/** The changes that an address names, so that it shows the same to whoever it is sent to; without any, one to begin with. */
export function changesOf(params: URLSearchParams): Change[] {
  const named = params.getAll("change");
  return named.length ? named.flatMap(readChange) : [newChange("demand")];
}

export function withChanges(params: URLSearchParams, changes: Change[]): URLSearchParams {
  const next = new URLSearchParams(params);
  next.delete("change");
  for (const change of changes.length ? changes.map(written) : [""]) next.append("change", change);
  return next;
}

function written({ kind, amount, model, objective, where }: Change): string {
  return [kind, amount, model, objective, where.cloud, where.region, where.gpu, where.market].join(";").replace(/;+$/, "");
}

function readChange(text: string): Change[] {
  const [name, amount = "", model = "", objective = "", cloud = "", region = "", gpu = "", market = ""] = text.split(";");
  const kind = KINDS.find((each) => each.value === name)?.value;
  if (!kind) return [];
  return [{ kind, amount, model, objective: objective === "ttft_ms" ? "ttft_ms" : "tpot_ms", where: { cloud, region, gpu, market } }];
}

/** What is wrong with it before the API is asked; empty: nothing. */
export function wrongOf({ kind, amount, where }: Change): string {
  const value = Number(amount);
  if (kind === "without") return Object.values(where).some(Boolean) ? "" : "Say what is gone.";
  if (amount.trim() === "" || !Number.isFinite(value)) return "A number is missing.";
  if (kind === "availability") return Number.isInteger(value) && value >= 0 && value <= 100_000 ? "" : "A whole number from 0 to 100,000.";
  if (kind === "slo") return value > 0 ? "" : "More than 0 ms.";
  return value > 0 && value <= 1000 ? "" : "More than 0, at most 1,000.";
}

/** The changes as the API takes them: another objective is another spec, all else a what-if. */
export function bodyOf(changes: Change[], spec: Schemas["Fleet"]["spec"]): { what_if: Schemas["WhatIfBody"]; spec?: Schemas["NewPlan"]["spec"] } {
  const of = (kind: Kind) => changes.filter((change) => change.kind === kind);
  const what_if: Schemas["WhatIfBody"] = {
    without: of("without").map((change) => placeOf(change.where)),
    prices: of("price").map((change) => ({ where: placeOf(change.where), factor: Number(change.amount) })),
    availability: of("availability").map((change) => ({ where: placeOf(change.where), nodes: Number(change.amount) })),
    demand: of("demand").map((change) => ({ model: change.model || null, factor: Number(change.amount) })),
  };
  const objectives = of("slo");
  if (!objectives.length) return { what_if };
  const models = ((spec.models ?? []) as Record<string, unknown>[]).map((model) => {
    const mine = objectives.filter((change) => !change.model || change.model === servedName(model));
    const slo = Object.fromEntries(mine.map((change) => [change.objective, Number(change.amount)]));
    return { ...model, slo: { ...(model.slo as object), ...slo } };
  });
  return { what_if, spec: { ...spec, models } as unknown as NonNullable<Schemas["NewPlan"]["spec"]> };
}

export function servedName(model: Record<string, unknown>): string {
  return String(model.name ?? model.model);
}

function placeOf(where: Where): Schemas["OfferChoiceBody"] {
  return Object.fromEntries(Object.entries(where).filter(([, value]) => value.trim())) as Schemas["OfferChoiceBody"];
}
