import java.util.Properties;
import java.util.StringJoiner;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * How long commitTransaction takes when every record of the transaction has been acknowledged before.
 * Arguments: bootstrap servers, topic, records in a transaction, bytes in a record, transactions.
 * Prints the milliseconds of each commit as a JSON array; a few transactions before them are not counted.
 */
public class CommitLatency {
    private static final int WARM_UP = 5;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int records = Integer.parseInt(args[2]);
        byte[] value = new byte[Integer.parseInt(args[3])];
        int transactions = Integer.parseInt(args[4]);
        int warmUp = records > 1000 ? 1 : WARM_UP;

        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("acks", "all");
        properties.put("transactional.id", "commit-latency-" + UUID.randomUUID());

        StringJoiner out = new StringJoiner(", ", "[", "]");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int i = 0; i < transactions + warmUp; i++) {
                producer.beginTransaction();
                for (int r = 0; r < records; r++) {
                    producer.send(new ProducerRecord<>(topic, value));
                }
                producer.flush();
                long before = System.nanoTime();
                producer.commitTransaction();
                long took = System.nanoTime() - before;
                if (i >= warmUp) {
                    out.add(String.format(java.util.Locale.ROOT, "%.3f", took / 1e6));
                }
            }
        }
        System.out.println(out);
    }
}
