import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileReader;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Running totals by key as a Kafka Streams application with exactly_once_v2: a RocksDB store with its changelog topic.
 * Arguments: a file of properties, input topic, output topic, keys.
 */
public class TotalsStreams {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static byte[] state(long purchases, double amount) {
        return ByteBuffer.allocate(16).putLong(purchases).putDouble(amount).array();
    }

    private static JsonNode parsed(byte[] value) {
        try {
            return JSON.readTree(value);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    private static byte[] written(String user, byte[] totals) {
        ByteBuffer buffer = ByteBuffer.wrap(totals);
        ObjectNode out = JSON.createObjectNode().put("user", user).put("purchases", buffer.getLong()).put("amount", buffer.getDouble());
        try {
            return JSON.writeValueAsBytes(out);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(args[0])) {
            properties.load(file);
        }
        long keys = Long.parseLong(args[3]);

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .map((key, value) -> {
                JsonNode purchase = parsed(value);
                String user = Long.toString(purchase.get("purchaseId").asLong() % keys);
                return KeyValue.pair(user, purchase.get("totalPrice").asDouble());
            })
            .groupByKey(Grouped.with("totals", Serdes.String(), Serdes.Double()))
            .aggregate(
                () -> state(0, 0.0),
                (user, price, old) -> {
                    ByteBuffer buffer = ByteBuffer.wrap(old);
                    return state(buffer.getLong() + 1, buffer.getDouble() + price);
                },
                Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray()))
            .toStream()
            .map((user, totals) -> KeyValue.pair(user, written(user, totals)))
            .to(args[2], Produced.with(Serdes.String(), Serdes.ByteArray()));

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
