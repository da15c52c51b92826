import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Empty } from "@/components/feedback";
import { Num } from "@/components/figures";
import { Meter } from "@/components/Meter";
import { TableBox } from "@/components/TableBox";

type Leg = Schemas["LegStatus"];

/** Shows for every model and phase what is ready of what is planned, and where the demand is on that scale. */
export function Capacity({ fleets }: { fleets: Schemas["FleetStatus"][] }) {
  if (!fleets.length) {
    return (
      <Empty title="Nothing runs" compact>
        <p>No fleet has an instance. One in mode approve waits for somebody to approve its plan.</p>
      </Empty>
    );
  }
  return (
    <TableBox label="Capacity">
      <table className="capacity">
        <thead>
          <tr>
            <th>Model</th>
            <th>Phase</th>
            <th className="right">Ready</th>
            <th className="right">Demand, units/s</th>
            <th className="right">Capacity, units/s</th>
            <th aria-label="Capacity that is ready, with the demand as a mark" />
          </tr>
        </thead>
        <tbody>
          {fleets.flatMap((fleet) =>
            fleet.models.flatMap((model) =>
              model.legs.map((leg, place) => (
                <tr key={`${fleet.fleet} ${model.model} ${leg.leg}`}>
                  <td className="name">
                    {place === 0 && (
                      <>
                        <Link className="clip" title={model.model} to={`/fleet?model=${encodeURIComponent(model.model)}`}>
                          {model.model}
                        </Link>
                        <div className="muted clip" title={fleet.fleet}>
                          {fleet.fleet}
                        </div>
                      </>
                    )}
                  </td>
                  <td>{leg.leg}</td>
                  <td className="right nowrap">
                    <Num value={leg.ready} /> <span className="muted">of</span> <Num value={leg.planned} />
                  </td>
                  <td className="right">
                    <Num value={leg.demand_units_per_s} />
                  </td>
                  <td className="right">
                    <Num value={leg.units_per_s} />
                  </td>
                  <td className="gauge">
                    <Gauge leg={leg} />
                  </td>
                </tr>
              )),
            ),
          )}
        </tbody>
      </table>
    </TableBox>
  );
}

function Gauge({ leg }: { leg: Leg }) {
  const most = Math.max(leg.planned_units_per_s, leg.units_per_s, leg.demand_units_per_s, 1e-9);
  const short = leg.units_per_s < leg.demand_units_per_s;
  return (
    <div className="row">
      <div className="grow">
        <Meter
          label={`${leg.leg}: ${short ? "less is ready than is asked for" : "enough is ready"}`}
          share={leg.units_per_s / most}
          mark={leg.demand_units_per_s / most}
          tone={short ? "bad" : "good"}
        />
      </div>
      {short && <Badge tone="bad">short</Badge>}
    </div>
  );
}
