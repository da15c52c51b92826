import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useId } from "react";
import { CHOICES } from "@/../generated/choices";
import type { Schemas } from "@/api/client";
import { cells } from "@/api/market";
import { Button } from "@/components/Button";
import { Select } from "@/components/Field";
import { type Change, KINDS, servedName, type Where } from "./changes";

type ChangeRowProps = { change: Change; fleet: Schemas["Fleet"]; wrong: string; onChange: (change: Change) => void; onRemove: () => void };

const AMOUNTS = { demand: "times what it is", price: "times what it is", availability: "nodes to be had beyond those held", without: "", slo: "ms" };

/** One thing that would be otherwise. */
export function ChangeRow({ change, fleet, wrong, onChange, onRemove }: ChangeRowProps) {
  const id = useId();
  const name = KINDS.find((kind) => kind.value === change.kind)?.label ?? "";
  const models = ((fleet.spec.models ?? []) as Record<string, unknown>[]).map(servedName);
  const ofModel = change.kind === "demand" || change.kind === "slo";
  return (
    <li className="change">
      <span className="strong">{name}</span>
      {ofModel ? (
        <Select label={`${name}: model`} value={change.model} onChange={(model) => onChange({ ...change, model })} options={models} any="All models" />
      ) : (
        <WhereFields name={name} own={(fleet.spec.clouds as { cloud: string }[]).map((each) => each.cloud)} where={change.where} onChange={(where) => onChange({ ...change, where })} />
      )}
      {change.kind === "slo" && (
        <Select
          label="Objective"
          value={change.objective}
          onChange={(objective) => onChange({ ...change, objective: objective as Change["objective"] })}
          options={[
            { value: "ttft_ms", label: "TTFT" },
            { value: "tpot_ms", label: "TPOT" },
          ]}
        />
      )}
      {change.kind !== "without" && (
        <span className="row amount">
          <input
            className="input"
            inputMode="decimal"
            maxLength={12}
            aria-label={`${name}: ${AMOUNTS[change.kind]}`}
            aria-invalid={wrong ? true : undefined}
            aria-describedby={wrong ? id : undefined}
            value={change.amount}
            onChange={(event) => onChange({ ...change, amount: event.target.value })}
          />
          <span className="muted">{AMOUNTS[change.kind]}</span>
        </span>
      )}
      {wrong && (
        <span className="bad" id={id}>
          {wrong}
        </span>
      )}
      <Button tone="ghost" icon small aria-label={`Remove this change of ${name.toLowerCase()}`} onClick={onRemove}>
        <X size={14} aria-hidden />
      </Button>
    </li>
  );
}

function namesOf(names: string[]): string[] {
  return [...new Set(names)].filter(Boolean).sort();
}

type WhereProps = { name: string; own: string[]; where: Where; onChange: (where: Where) => void };

/** `own`: clouds of the fleet, some of which nobody else sells. */
function WhereFields({ name, own, where, onChange }: WhereProps) {
  const sold = useQuery(cells("on-demand")).data?.items ?? [];
  // What is chosen is there before the market is, and when nobody sells it any more.
  const clouds = namesOf([where.cloud, ...own, ...sold.map((cell) => cell.cloud)]);
  const regions = namesOf([where.region, ...sold.filter((cell) => !where.cloud || cell.cloud === where.cloud).map((cell) => cell.region)]);
  const gpus = namesOf([where.gpu, ...sold.map((cell) => cell.gpu)]);
  return (
    <>
      <Select label={`${name}: cloud`} value={where.cloud} onChange={(cloud) => onChange({ ...where, cloud, region: "" })} options={clouds} any="Any cloud" />
      <Select label={`${name}: region`} value={where.region} onChange={(region) => onChange({ ...where, region })} options={regions} any="Any region" />
      <Select label={`${name}: GPU`} value={where.gpu} onChange={(gpu) => onChange({ ...where, gpu })} options={gpus} any="Any GPU" />
      <Select label={`${name}: market`} value={where.market} onChange={(market) => onChange({ ...where, market })} options={CHOICES.Market} any="Any market" />
    </>
  );
}
