// The official TypeScript SDK's client, over one transport: pages, a read, a
// refusal, a command, a cancellation. Prints one JSON document.
// Usage: node client.mjs stdio|http|sse ADDRESS [TOKEN]
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const [how, address, token] = process.argv.slice(2)
const headers = { Authorization: `Bearer ${token}` }
const transport = {
	stdio: () => new StdioClientTransport({ command: address, args: ['mcp', '--workspace', process.cwd()], env: process.env }),
	http: () => new StreamableHTTPClientTransport(new URL(address + '/mcp'), { requestInit: { headers } }),
	sse: () => new SSEClientTransport(new URL(address + '/sse'), { requestInit: { headers }, eventSourceInit: { fetch: (u, i) => fetch(u, { ...i, headers: { ...i.headers, ...headers } }) } }),
}[how]()

const client = new Client({ name: 'ts-sdk', version: '1' })
await client.connect(transport)
const out = { tools: [] }
for (let cursor; ;) {
	const page = await client.listTools({ cursor })
	out.tools.push(...page.tools.map((t) => t.name))
	if (!(cursor = page.nextCursor)) break
}
out.badCursor = await client.listTools({ cursor: 'bWFkZSB1cA==' }).then(() => 'taken', (e) => String(e.code))
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options)
out.read = await call('read_file', { path: 'a.txt' })
out.refused = await call('read_file', { path: '../state' })
out.ran = await call('run_command', { command: 'echo ran' })
out.cancelled = await call('run_command', { command: 'sleep 61' }, { timeout: 2000 }).then(() => 'ended', (e) => String(e.code))
out.after = await call('read_file', { path: 'a.txt', limit: 1 })
await client.close()
console.log(JSON.stringify(out))
process.exit(0)
