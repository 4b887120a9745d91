// Calls the policy agent as a program in another language would: with the .proto file and nothing else of ours.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [proto, include, socket] = process.argv.slice(2);
const definition = loader.loadSync(proto, { includeDirs: [include], keepCase: true, defaults: true, enums: String, oneofs: true });
const { PolicyAgent } = grpc.loadPackageDefinition(definition).agentgate.policy.v1;
const agent = new PolicyAgent(`unix:${socket}`, grpc.credentials.createInsecure());

const struct = (fields) => ({ fields: Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, of(value)])) });
const of = (value) => {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "number") return { numberValue: value };
  if (Array.isArray(value)) return { listValue: { values: value.map(of) } };
  return { structValue: struct(value) };
};
const request = (key, policies) => ({
  request_id: key,
  phase: "REQUEST",
  policies,
  context: {
    method: "GET", path: "/orders", scheme: "https", authority: "api.test",
    headers: [{ name: "X-Api-Key", value: key }],
  },
});
const KEY = "key-of-anna-0123456789abcdef";
const chain = [
  { name: "api_key", metadata: struct({ keys: [{ id: "anna", key: KEY }] }) },
  { name: "set_headers", metadata: struct({ headers: { "x-checked-by": "agent-gate" } }) },
];
const call = (method, message) =>
  new Promise((resolve) =>
    agent[method](message, (error, answer) => resolve(error ? { code: error.code, details: error.details } : answer)));
const streamed = (messages) =>
  new Promise((resolve, reject) => {
    const stream = agent.ExecutePoliciesStream();
    const answers = [];
    stream.on("data", (answer) => answers.push([answer.request_id, answer.status.code]));
    stream.on("error", reject);
    stream.on("end", () => resolve(answers));
    messages.forEach((message) => stream.write(message));
    stream.end();
  });

(async () => {
  const config = await call("GetAgentConfig", {});
  const allowed = await call("ExecutePolicies", request(KEY, chain));
  const denied = await call("ExecutePolicies", request("wrong", chain));
  const invalid = await call("ExecutePolicies", request(KEY, [{ name: "api_key" }]));
  const stream = await streamed([request(KEY, chain), request("wrong", chain), request(KEY, [])]);
  const health = await call("HealthCheck", {});
  const told = {
    policies: config.supported_policies.map((policy) => policy.name).sort(),
    allowed: [allowed.status.code, allowed.instructions.map((one) => [one.instruction, one[one.instruction]])],
    denied: [denied.status, denied.instructions[0].immediate_response.status_code],
    invalid, stream, health,
  };
  console.log(JSON.stringify(told));
  agent.close();
})();
