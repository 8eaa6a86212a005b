import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Many transactional producers in one process, each with a transaction of one record so many times a second.
 * Arguments: bootstrap servers, topic, producers, commits a second of each, seconds, seconds of warm-up.
 * Says "ready" when the warm-up begins and "counting" when it is over, then one line of JSON. A producer that is late
 * does not catch up: what it missed is missing in the number of commits.
 */
public class ManyProducers {
    private static final byte[] VALUE = new byte[100];

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        long periodNs = (long) (1e9 / Double.parseDouble(args[3]));
        long seconds = Long.parseLong(args[4]);
        long warmUp = Long.parseLong(args[5]);

        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", args[0]);
            properties.put("transactional.id", "many-" + UUID.randomUUID());
            properties.put("linger.ms", "0");
            producers.add(new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer()));
        }
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<?>> initialised = new ArrayList<>();
        for (KafkaProducer<byte[], byte[]> producer : producers) {
            initialised.add(threads.submit(producer::initTransactions));
        }
        for (Future<?> each : initialised) {
            each.get();
        }

        System.out.println("ready");
        long start = System.nanoTime();
        long from = start + warmUp * 1_000_000_000L;
        long until = from + seconds * 1_000_000_000L;
        List<Future<long[]>> runs = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            KafkaProducer<byte[], byte[]> producer = producers.get(i);
            long first = start + periodNs * i / count;
            runs.add(threads.submit(() -> run(producer, topic, first, periodNs, from, until)));
        }
        LockSupport.parkNanos(from - System.nanoTime());
        System.out.println("counting");

        long[] all = new long[0];
        for (Future<long[]> run : runs) {
            long[] found = run.get();
            int before = all.length;
            all = Arrays.copyOf(all, before + found.length);
            System.arraycopy(found, 0, all, before, found.length);
        }
        Arrays.sort(all);
        System.out.printf(java.util.Locale.ROOT,
            "{\"commits\": %d, \"seconds\": %d, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f}%n",
            all.length, seconds, at(all, 0.5), at(all, 0.99), at(all, 1.0));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, share * sorted.length)] / 1e6;
    }

    /** Nanoseconds from beginTransaction to the return of commitTransaction, of those that ended while it counts. */
    private static long[] run(
            KafkaProducer<byte[], byte[]> producer, String topic, long first, long periodNs, long from, long until) {
        long[] found = new long[(int) ((until - from) / periodNs) + 2];
        int count = 0;
        for (long next = first; next < until; next = Math.max(next + periodNs, System.nanoTime())) {
            while (System.nanoTime() < next) {
                LockSupport.parkNanos(next - System.nanoTime());
            }
            long before = System.nanoTime();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, VALUE));
            producer.commitTransaction();
            long after = System.nanoTime();
            if (after >= from && after < until && count < found.length) {
                found[count++] = after - before;
            }
        }
        return Arrays.copyOf(found, count);
    }
}
