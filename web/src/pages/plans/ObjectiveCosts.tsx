import { useQuery } from "@tanstack/react-query";
import { useAddress } from "@/address";
import { api, got, type Schemas } from "@/api/client";
import { useOperation } from "@/api/operation";
import { planObjectives } from "@/api/queries";
import { Badge } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Chart } from "@/components/Chart";
import { Empty, Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { dollars, Time, Usd } from "@/components/figures";
import { OperationState } from "@/components/OperationState";
import { TableBox } from "@/components/TableBox";
import { AXES, type Axis, type Curve, modelsOf, noteOf, placeOf, reasonOf, summaryOf, valueText } from "./objective";

type ObjectiveCostsProps = { plan: Schemas["Plan"]; fleet: Schemas["Fleet"] };

/** What the fleet would cost under other objectives: found when asked for, since every value is a plan of its own, and there for all after that. */
export function ObjectiveCosts({ plan, fleet }: ObjectiveCostsProps) {
  const [said, say] = useAddress();
  const models = modelsOf(fleet);
  const model = models.find((each) => each === said.get("model")) ?? models[0] ?? "";
  const axis = AXES.find((each) => each.value === said.get("objective"))?.value ?? "ttft";
  const known = useQuery({ ...planObjectives(plan.id), enabled: !plan.draft });
  const work = useOperation(
    (asked: { model: string; axis: Axis }) => got(api.POST("/api/v1/plans/{plan}:objectives", { params: { path: { plan: plan.id } }, body: { ...asked, values: [] } })),
    ["objectives"],
  );
  if (plan.draft || !model) return null; // nothing is ever held to a draft
  const choose = (choice: Record<string, string>) => {
    if (!work.isBusy) work.clear(); // a failure was of another choice
    say(choice);
  };
  const refusal = work.isBusy ? "It is being found." : "";
  return (
    <Card title="Cost against objective" flush>
      <div className="explained">
        <div className="row wrap choices">
          <Select label="Model" value={model} onChange={(next) => choose({ model: next })} options={models} />
          <Select label="Objective" value={axis} onChange={(next) => choose({ objective: next })} options={AXES} />
          <span className="grow" />
          <ActButton operation="find_objective_costs" small refusal={refusal} onClick={() => work.begin({ model, axis })}>
            Find costs
          </ActButton>
        </div>
        <OperationState work={work} />
        <Loaded query={known} height={200}>
          {({ curves }) => {
            const curve = curves.find((each) => each.model === model && each.axis === axis);
            if (curve) return <Found curve={curve} />;
            return (
              <Empty title="Nobody has asked yet" compact>
                <p>“Find costs” plans the whole fleet again for each of some values, with the same demand, prices and supply. It touches nothing.</p>
              </Empty>
            );
          }}
        </Loaded>
      </div>
    </Card>
  );
}

function Found({ curve }: { curve: Curve }) {
  const inForce = curve.points.find((point) => point.value === curve.now)?.usd_per_hour;
  const at = curve.points.map((point) => placeOf(curve.axis, point.value));
  const format = (place: number) => {
    const found = curve.points[at.indexOf(place)];
    return found ? valueText(curve.axis, found.value) : "";
  };
  const lines = [{ name: "Cost", colour: "var(--accent)", values: curve.points.map((point) => point.usd_per_hour) }];
  const reason = reasonOf(curve);
  return (
    <>
      <Chart
        key={`${curve.model} ${curve.axis}`}
        label={summaryOf(curve, dollars)}
        at={at}
        across={{ format, mark: placeOf(curve.axis, curve.now) }}
        none="no template keeps it"
        lines={lines}
        format={(usd) => `${dollars(usd)}/h`}
      />
      <TableBox label="Costs by objective">
        <table>
          <thead>
            <tr>
              <th>{AXES.find((each) => each.value === curve.axis)?.label}</th>
              <th className="right">Cost</th>
              <th className="right">Change</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {curve.points.map((point) => (
              <tr key={point.value} aria-current={point.value === curve.now ? "true" : undefined}>
                <td className="nowrap">
                  {valueText(curve.axis, point.value)} {point.value === curve.now && <Badge tone="accent">now</Badge>}
                </td>
                <td className="right">
                  <Usd value={point.usd_per_hour} per="h" />
                </td>
                <td className="right">{point.usd_per_hour != null && inForce != null && point.value !== curve.now && <Usd value={point.usd_per_hour - inForce} sign />}</td>
                <td className="muted">{noteOf(point)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
      {reason && <p className="hint break">{reason}</p>}
      <p className="muted hint">
        Of the whole fleet, all promises certified as the plan's are; the dashed line is the objective in force, a cross a value that no template keeps. Found <Time at={curve.found_at} ago />.
      </p>
    </>
  );
}
