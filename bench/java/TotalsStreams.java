import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
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
 * A purchase counts if it is one JSON object and has a purchaseId (a whole number from 0 on) and a totalPrice (from 0 to a billion).
 * Arguments: a file of properties, input topic, output topic, keys.
 */
public class TotalsStreams {
    private static final JsonFactory JSON = new JsonFactory();
    private static final double PRICE_MAX = 1_000_000_000;

    /** The user and the cents of a purchase that counts; nothing for one that does not. */
    private static List<KeyValue<String, Long>> read(byte[] value, long keys) {
        if (value == null) {
            return List.of();
        }
        long purchaseId = -1;
        double totalPrice = -1;
        try (JsonParser parser = JSON.createParser(value)) {
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                return List.of();
            }
            for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
                JsonToken token = parser.nextToken();
                switch (name) {
                    case "purchaseId" -> purchaseId = whole(parser, token);
                    case "totalPrice" -> totalPrice = token.isNumeric() ? parser.getDoubleValue() : -1;
                    default -> { }
                }
                parser.skipChildren();
            }
            if (parser.currentToken() != JsonToken.END_OBJECT || parser.nextToken() != null) {
                return List.of();
            }
        } catch (IOException notJson) {
            return List.of();
        }
        if (purchaseId < 0 || !(totalPrice >= 0 && totalPrice <= PRICE_MAX)) {
            return List.of();
        }
        return List.of(KeyValue.pair(Long.toString(purchaseId % keys), Math.round(totalPrice * 100)));
    }

    private static long whole(JsonParser parser, JsonToken token) throws IOException {
        boolean isLong = token == JsonToken.VALUE_NUMBER_INT && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
        return isLong ? parser.getLongValue() : -1;
    }

    private static byte[] state(long purchases, long cents) {
        return ByteBuffer.allocate(16).putLong(purchases).putLong(cents).array();
    }

    private static byte[] written(String user, byte[] totals) {
        ByteBuffer state = ByteBuffer.wrap(totals);
        ByteArrayOutputStream buffer = new ByteArrayOutputStream(64);
        try (JsonGenerator out = JSON.createGenerator(buffer)) {
            out.writeStartObject();
            out.writeStringField("user", user);
            out.writeNumberField("purchases", state.getLong());
            out.writeNumberField("cents", state.getLong());
            out.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return buffer.toByteArray();
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(args[0])) {
            properties.load(file);
        }
        long keys = Long.parseLong(args[3]);

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .flatMap((key, value) -> read(value, keys))
            .groupByKey(Grouped.with("totals", Serdes.String(), Serdes.Long()))
            .aggregate(
                () -> state(0, 0),
                (user, cents, old) -> {
                    ByteBuffer buffer = ByteBuffer.wrap(old);
                    return state(buffer.getLong() + 1, buffer.getLong() + cents);
                },
                Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray()))
            .toStream()
            .mapValues((user, totals) -> written(user, totals))
            .to(args[2], Produced.with(Serdes.String(), Serdes.ByteArray()));

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
