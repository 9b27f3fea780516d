// Whether the log of events agrees with the tables. Knows the database only by a function that runs statements.

type Rows = <R extends object>(text: string) => Promise<R[]>

/**
 * What contradicts in the log: of each desktop and operation, each event must follow from the one before it, and the last one
 * must say what the table says. An event that was lost, doubled or is out of order breaks that.
 */
export async function contradictionsInLog(rows: Rows): Promise<string[]> {
  const found = await rows<{ what: string }>(
    `with told as (
       select seq, desktop_id, data->>'state' as state, data->>'previous_state' as previous,
         lag(data->>'state') over (partition by desktop_id order by seq) as before,
         row_number() over (partition by desktop_id order by seq desc) as age
       from events where type = 'desktop.state'),
     operations_told as (
       select seq, data->>'operation_id' as id, data->>'state' as state,
         lag(data->>'state') over (partition by data->>'operation_id' order by seq) as before,
         row_number() over (partition by data->>'operation_id' order by seq desc) as age
       from events where type like 'operation.%')
     select format('event %s of desktop %s is %s after %s, but before it came %s', seq, desktop_id, state, previous, before) as what
     from told where before is not null and previous is distinct from before
     union all
     select format('the last event of desktop %s is %s, and it is %s', d.id, told.state, d.state)
     from told join desktops d on d.id = told.desktop_id where age = 1 and told.state <> d.state
     union all
     select format('event %s of operation %s is %s after %s', seq, id, state, before)
     from operations_told where before in ('succeeded', 'failed') or before = state
     union all
     select format('the last event of operation %s is %s, and it is %s', o.id, told.state, o.state)
     from operations_told told join operations o on o.id = told.id::uuid where age = 1 and told.state <> o.state
     limit 5`,
  )
  return found.map(({ what }) => what)
}
