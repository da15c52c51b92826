import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { usage } from "@/api/ledger";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Percent, percent, Usd } from "@/components/figures";
import { Meter } from "@/components/Meter";
import { TableBox } from "@/components/TableBox";
import { Keys } from "./Keys";
import { ServedCells, ServedHeads } from "./Served";

type Report = Schemas["UsageReport"];

/** What a million tokens cost, how much of what is paid for stands idle, and whose keys used it. */
export function Use({ since }: { since: string }) {
  const read = useQuery(usage(since));
  return (
    <>
      <Card title="What tokens cost" flush>
        <Loaded query={read}>{(report) => <Models models={report.models} />}</Loaded>
      </Card>
      <Card title="By project of the keys" flush>
        <Loaded query={read}>{(report) => <Projects report={report} />}</Loaded>
      </Card>
      <Keys since={since} />
    </>
  );
}

function Models({ models }: { models: Report["models"] }) {
  if (!models.length) {
    return (
      <Empty compact title="No model cost or served anything in this span">
        Tokens are counted by gateways, dollars from the moment that a node is asked for.
      </Empty>
    );
  }
  return (
    <TableBox label="What tokens cost">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col" className="right">A million tokens</th>
            <th scope="col" className="right">Spent</th>
            <ServedHeads />
            <th scope="col">Capacity used</th>
            <th scope="col" className="right">Idle</th>
          </tr>
        </thead>
        <tbody>
          {models.map((each) => (
            <tr key={`${each.fleet} ${each.model}`}>
              <td className="name">
                <Link className="clip" title={each.model} to={`/performance?fleet=${encodeURIComponent(each.fleet)}&model=${encodeURIComponent(each.model)}&range=24h`}>
                  {each.model}
                </Link>
                <div className="muted clip" title={each.fleet}>{each.fleet}</div>
              </td>
              <td className="right strong"><Usd value={each.usd_per_million_tokens} none="none served" /></td>
              <td className="right"><Usd value={each.usd} /></td>
              <ServedCells of={each} />
              <td style={{ minWidth: 130 }}>
                {each.used == null ? (
                  <span className="muted">not known</span>
                ) : (
                  <div className="row">
                    <div className="grow"><Meter label={`${each.model}: ${percent(each.used)} of its capacity was used`} share={each.used} /></div>
                    <Percent value={each.used} />
                  </div>
                )}
              </td>
              <td className="right"><Usd value={each.idle_usd} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

function Projects({ report }: { report: Report }) {
  if (!report.projects.length) {
    return (
      <Empty compact title="No key was used in this span">
        The dollars of a model are split by what the keys of each project used.
      </Empty>
    );
  }
  return (
    <>
      <TableBox label="By project of the keys">
        <table>
          <thead>
            <tr>
              <th scope="col">Project</th>
              <th scope="col" className="right">Its part</th>
              <th scope="col" className="right">A million tokens</th>
              <ServedHeads />
            </tr>
          </thead>
          <tbody>
            {report.projects.map((each) => (
              <tr key={each.project}>
                <td className="break">{each.project || "(no key was asked for)"}</td>
                <td className="right strong"><Usd value={each.usd} /></td>
                <td className="right"><Usd value={each.usd_per_million_tokens} none="none served" /></td>
                <ServedCells of={each} />
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
      {report.unused_usd > 0 && (
        <p className="hint">
          <Usd value={report.unused_usd} /> stood idle: no project's.
        </p>
      )}
    </>
  );
}
