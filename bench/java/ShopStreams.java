import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The shop as a Kafka Streams application with exactly_once_v2: a purchase becomes an invoice and a shipment.
 * Arguments: a file of properties, input topic, invoices, shipments.
 */
public class ShopStreams {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(args[0])) {
            properties.load(file);
        }

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .flatMap((key, value) -> {
                try {
                    JsonNode purchase = JSON.readTree(value);
                    String id = purchase.get("purchaseId").asText();
                    ObjectNode invoice = JSON.createObjectNode();
                    for (String name : List.of("purchaseId", "userId", "productId", "quantity", "totalPrice")) {
                        invoice.set(name, purchase.get(name));
                    }
                    long user = purchase.get("userId").asLong();
                    ObjectNode shipment = JSON.createObjectNode();
                    shipment.put("shipmentId", "S-" + id);
                    shipment.set("purchaseId", purchase.get("purchaseId"));
                    shipment.set("productId", purchase.get("productId"));
                    shipment.set("userFullName", purchase.get("userFullName"));
                    shipment.put("address", "SomeStreet " + (user % 97 + 1) + "/" + (user % 18 + 1) + ", Warsaw");
                    shipment.set("quantity", purchase.get("quantity"));
                    return List.of(
                        KeyValue.pair("i" + id, JSON.writeValueAsBytes(invoice)),
                        KeyValue.pair("s" + id, JSON.writeValueAsBytes(shipment)));
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            })
            .to((key, value, context) -> key.charAt(0) == 'i' ? args[2] : args[3],
                Produced.with(Serdes.String(), Serdes.ByteArray()));

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
