// Workers that parse and pack, and a process of the first one. Argument: rounds.

const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const { createHash } = require("crypto");
const { execFileSync } = require("child_process");
const { gunzipSync, gzipSync } = require("zlib");

const workers = 4;

function work(number, rounds) {
  const hash = createHash("sha256");
  for (let i = 0; i < rounds; ++i) {
    const read = JSON.parse(JSON.stringify({ i, text: "x".repeat((i * number) % 300), list: [i, [number]] }));
    hash.update(gunzipSync(gzipSync(Buffer.alloc((i % 64) * 100, read.text))));
  }
  return hash.digest("hex");
}

if (isMainThread) {
  const results = [];
  let left = workers;
  for (let number = 1; number <= workers; ++number) {
    const worker = new Worker(__filename, { workerData: { number, rounds: Number(process.argv[2]) } });
    worker.on("message", (result) => {
      results[number] = result;
      if (--left === 0) {
        console.log(results.join("\n"));
        process.stdout.write(execFileSync("echo", ["another process"]));
      }
    });
  }
} else {
  parentPort.postMessage(work(workerData.number, workerData.rounds));
}
