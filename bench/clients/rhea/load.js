'use strict';
// The load process of amqp10/load/__main__.py with rhea: the same lines on standard input and output, the same plan, the
// same report. It sends messages that are alike, as fast as it can; bench/clients/programs.py refuses other plans.

const readline = require('node:readline');
const rhea = require('rhea');

// As in amqp10/load/stages.py and plan.py.
const QUIET_MS = 2000, LINGER_MS = 50, NUMBERED_BYTES = 12;
const STEP_MS = 5;
const TURN_MESSAGES = 100; // sent before the loop looks at its socket again

/** Nanoseconds of the monotonic clock, which all processes of a machine share. */
const now = () => Number(process.hrtime.bigint());
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const say = (event, fields) => process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);

function fail(reason) {
    say('failed', { reason: `rhea: ${reason}` });
    process.exit(1);
}

/** What one publisher sends, and what became of it. */
class Publisher {
    constructor(plan, sender) {
        this.traffic = plan.traffic;
        this.number = plan.applications[0].publisher;
        this.paddings = plan.paddings.map((padding) => Buffer.from(padding, 'base64'));
        this.sender = sender;
        this.sent = this.confirmed = this.refused = this.lastProgress = 0;
        this.stopped = false;
        for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
            sender.on(outcome, () => {
                this.confirmed += 1;
                this.refused += outcome === 'accepted' ? 0 : 1;
                this.lastProgress = now();
            });
        }
    }

    body(sequence) {
        const head = Buffer.alloc(NUMBERED_BYTES);
        head.writeUInt32BE(this.number);
        head.writeBigUInt64BE(BigInt(sequence), 4);
        return rhea.message.data_section(Buffer.concat([head, this.paddings[sequence % this.paddings.length]]));
    }

    /** Send until the time or the messages of the plan are over. */
    async run(start) {
        const { seconds, messages, in_flight: inFlight, durable } = this.traffic;
        const end = start + seconds * 1e9, most = inFlight || Infinity;
        while (this.sent < messages && now() < end) {
            for (let n = 0; n < TURN_MESSAGES && this.sent < messages; n += 1) {
                if (!this.sender.sendable() || this.sent - this.confirmed >= most) break;
                this.sender.send({ body: this.body(this.sent), ...(durable ? { durable: true } : {}) });
                this.sent += 1;
                this.lastProgress = now();
            }
            await pause(0);
        }
        this.stopped = true;
    }

    get finished() { return this.stopped && this.confirmed >= this.sent; }
}

/** The ledger of one consumer: the sequence numbers of each publisher in order of arrival, as ranges. */
class Checker {
    constructor(plan, receiver) {
        this.paddings = plan.paddings.map((padding) => Buffer.from(padding, 'base64'));
        this.received = {};
        this.total = this.corrupted = this.lastArrival = 0;
        receiver.on('message', (context) => {
            this.take(context.message.body);
            context.delivery.accept();
        });
    }

    take(body) {
        this.lastArrival = now();
        const bytes = body && body.content;
        if (!Buffer.isBuffer(bytes) || bytes.length < NUMBERED_BYTES) { this.corrupted += 1; return; }
        const publisher = bytes.readUInt32BE(), sequence = Number(bytes.readBigUInt64BE(4));
        const padding = this.paddings[sequence % this.paddings.length];
        if (!bytes.subarray(NUMBERED_BYTES).equals(padding)) { this.corrupted += 1; return; }
        this.total += 1;
        const spans = this.received[publisher] ??= [];
        const last = spans.at(-1);
        if (last && last[0] + last[1] === sequence) last[1] += 1;
        else spans.push([sequence, 1]);
    }
}

/** Wait until done, or until there was no progress for so long. */
async function until(done, patience, progress) {
    const asked = now();
    while (!done()) {
        if (now() - Math.max(asked, progress()) > patience * 1e6) return;
        await pause(STEP_MS);
    }
}

async function main() {
    const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    const order = async () => { const line = await input.next(); return line.done ? null : JSON.parse(line.value); };
    const plan = await order();
    if (plan === null) return 2;
    const application = plan.applications[0], url = new URL(plan.url);
    const connection = rhea.create_container({ id: `bench-${process.pid}` }).connect({
        host: url.hostname, port: url.port || 5672, username: url.username, password: url.password, reconnect: false,
        max_frame_size: plan.max_frame_size,
    });
    for (const name of ['connection_error', 'session_error', 'sender_error', 'receiver_error', 'protocol_error']) {
        connection.on(name, (context) => {
            const ended = context.receiver || context.sender || context.session || context.connection;
            fail(`${name}: ${(ended && ended.error) || context}`);
        });
    }
    connection.on('disconnected', (context) => { if (context.error) fail(`disconnected: ${context.error}`); });
    const opened = [];
    const open = (name) => opened.push(new Promise((resolve) => connection.once(name, resolve)));
    let publisher = null, checker = null, receiver = null;
    if (application.publish_to) {
        open('sender_open');
        publisher = new Publisher(plan, connection.open_sender(plan.destinations[0].address));
    }
    if (application.consume_from) {
        open('receiver_open');
        const source = `/queues/${encodeURIComponent(application.consume_from)}`;
        receiver = connection.open_receiver({ source, credit_window: 0, autoaccept: false });
        checker = new Checker(plan, receiver);
    }
    const patience = plan.patience_seconds * 1000;
    await Promise.race([Promise.all(opened), pause(patience).then(() => fail('the broker did not answer an attach'))]);
    say('ready', { broker: connection.properties || {} });
    const begin = await order();
    if (begin && begin.go != null) {
        const cpuBefore = process.cpuUsage();
        const progress = () => Math.max(begin.go, checker?.lastArrival ?? 0, publisher?.lastProgress ?? 0);
        if (receiver) { receiver.add_credit(application.link_credit); receiver.set_credit_window(application.link_credit); }
        if (publisher) {
            publisher.run(begin.go).catch(fail);
            await until(() => publisher.finished, patience, progress);
        }
        say('published', { sent: publisher ? { [publisher.number]: publisher.sent } : {} });
        const { finish } = await order() || {};
        if (checker && finish == null) await until(() => false, Math.min(QUIET_MS, patience), progress);
        else if (checker) {
            await until(() => checker.total >= finish, patience, progress);
            await pause(LINGER_MS);
        }
        const cpu = process.cpuUsage(cpuBefore);
        say('report', {
            unconfirmed: publisher ? publisher.sent - publisher.confirmed : 0,
            refused: publisher?.refused ?? 0,
            corrupted: checker?.corrupted ?? 0,
            received: checker ? [checker.received] : [],
            last_progress_ns: progress(),
            last_arrival_ns: checker?.lastArrival ?? 0,
            cpu_seconds: (cpu.user + cpu.system) / 1e6,
            latency: plan.no_latency,
        });
    }
    while (await order() !== null);
    connection.close();
    return 0;
}

main().then((status) => { process.exitCode = status; }, fail);
