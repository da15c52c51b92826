import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { projects } from "@/api/ledger";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Count } from "@/components/figures";
import { TableBox } from "@/components/TableBox";
import { ProjectDialog } from "./ProjectDialog";

type Project = Schemas["Project"];

/** What fleets, tokens and budgets belong to, with limits that all tokens of one share. */
export function Projects() {
  const read = useQuery(projects());
  const [edited, setEdited] = useState<Project | "new" | null>(null);
  return (
    <Card
      title="Projects"
      flush
      side={
        <ActButton operation="create_project" small onClick={() => setEdited("new")}>
          New project
        </ActButton>
      }
    >
      <Loaded query={read}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty compact title="There is only the project default">A project has fleets, tokens and budgets of its own, and limits that its tokens share.</Empty>
          ) : (
            <TableBox label="Projects">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Project</th>
                    <th scope="col" className="right">Fleets</th>
                    <th scope="col" className="right">Requests/min</th>
                    <th scope="col" className="right">Tokens/min</th>
                    <th scope="col" className="right">Open at once</th>
                    <th scope="col"><span className="sr">Actions</span></th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((each) => (
                    <tr key={each.name}>
                      <td className="name">
                        <div className="strong clip" title={each.name}>{each.name}</div>
                        <div className="muted break">{each.description}</div>
                      </td>
                      <td className="right"><Count value={each.fleets} /></td>
                      <td className="right"><Count value={each.limits.requests_per_minute} none="no limit" /></td>
                      <td className="right"><Count value={each.limits.tokens_per_minute} none="no limit" /></td>
                      <td className="right"><Count value={each.limits.concurrent_requests} none="no limit" /></td>
                      <td className="right">
                        <ActButton operation="change_project" small aria-label={`Change ${each.name}`} onClick={() => setEdited(each)}>
                          Change…
                        </ActButton>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </TableBox>
          )
        }
      </Loaded>
      {edited && <ProjectDialog project={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Card>
  );
}
