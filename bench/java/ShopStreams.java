import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.SerializableString;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.ByteArrayOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * The shop as a Kafka Streams application with exactly_once_v2: a purchase becomes an invoice and a shipment, a bad
 * one becomes a dead letter. The rules and the bytes are those of fencepost.shop.pipeline.
 *
 * Written for speed: Jackson's streaming parser and generator, one buffer per task, field names encoded once, no text
 * in between for keys and values.
 * Arguments: a file of properties, input topic, invoices, shipments, dead letters.
 */
public class ShopStreams {
    private static final JsonFactory JSON = new JsonFactory();
    private static final double PRICE_MAX = 1_000_000_000;

    private static final SerializableString PURCHASE_ID = new SerializedString("purchaseId");
    private static final SerializableString USER_ID = new SerializedString("userId");
    private static final SerializableString PRODUCT_ID = new SerializedString("productId");
    private static final SerializableString QUANTITY = new SerializedString("quantity");
    private static final SerializableString TOTAL_PRICE = new SerializedString("totalPrice");
    private static final SerializableString SHIPMENT_ID = new SerializedString("shipmentId");
    private static final SerializableString USER_FULL_NAME = new SerializedString("userFullName");
    private static final SerializableString ADDRESS = new SerializedString("address");

    private static final String NULL = "the value is null";
    private static final String NO_OBJECT = "the value is not a JSON object";
    private static final String NO_PURCHASE_ID = "purchaseId is missing or not a whole number from 0 on";
    private static final String NO_USER_ID = "userId is missing or not a whole number from 0 on";
    private static final String NO_NAME = "userFullName is missing or not text";
    private static final String NO_PRODUCT_ID = "productId is missing or not a whole number from 0 on";
    private static final String NO_QUANTITY = "quantity is missing or not a whole number from 1 on";
    private static final String NO_PRICE = "totalPrice is missing or not a number from 0 to a billion";

    /** One per task, so its fields and its buffer are used by one thread at a time. */
    private static final class Shop implements Processor<byte[], byte[], byte[], byte[]> {
        private final ByteArrayOutputStream buffer = new ByteArrayOutputStream(512);
        private ProcessorContext<byte[], byte[]> context;
        private long purchaseId;
        private long userId;
        private long productId;
        private long quantity;
        private double totalPrice;
        private String userFullName;

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            String reason = read(record.value());
            if (reason == null) {
                byte[] key = utf8(Long.toString(purchaseId));
                try {
                    byte[] invoice = invoice();
                    byte[] shipment = shipment();
                    context.forward(new Record<>(key, invoice, record.timestamp()), "invoices");
                    context.forward(new Record<>(key, shipment, record.timestamp()), "shipments");
                    return;
                } catch (IOException halfASurrogatePair) {
                    reason = NO_NAME;
                }
            }
            context.forward(deadLetter(record, reason), "dead letters");
        }

        /** Reads the fields. Gives what is wrong with them, or null. */
        private String read(byte[] value) {
            if (value == null) {
                return NULL;
            }
            purchaseId = userId = productId = quantity = -1;
            totalPrice = -1;
            userFullName = null;
            try (JsonParser parser = JSON.createParser(value)) {
                if (parser.nextToken() != JsonToken.START_OBJECT) {
                    return NO_OBJECT;
                }
                for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
                    JsonToken token = parser.nextToken();
                    switch (name) {
                        case "purchaseId" -> purchaseId = whole(parser, token, Long.MAX_VALUE);
                        case "userId" -> userId = whole(parser, token, Long.MAX_VALUE);
                        case "productId" -> productId = whole(parser, token, Long.MAX_VALUE);
                        case "quantity" -> quantity = whole(parser, token, Integer.MAX_VALUE);
                        case "totalPrice" -> totalPrice = token.isNumeric() ? parser.getDoubleValue() : -1;
                        case "userFullName" -> userFullName = token == JsonToken.VALUE_STRING ? parser.getText() : null;
                        default -> { }
                    }
                    parser.skipChildren();
                }
                if (parser.currentToken() != JsonToken.END_OBJECT || parser.nextToken() != null) {
                    return NO_OBJECT;
                }
            } catch (IOException notJson) {
                return NO_OBJECT;
            }
            return purchaseId < 0 ? NO_PURCHASE_ID
                : userId < 0 ? NO_USER_ID
                : userFullName == null ? NO_NAME
                : productId < 0 ? NO_PRODUCT_ID
                : quantity < 1 ? NO_QUANTITY
                : !(totalPrice >= 0 && totalPrice <= PRICE_MAX) ? NO_PRICE
                : null;
        }

        private static long whole(JsonParser parser, JsonToken token, long most) throws IOException {
            if (token != JsonToken.VALUE_NUMBER_INT || parser.getNumberType() == JsonParser.NumberType.BIG_INTEGER) {
                return -1;
            }
            long found = parser.getLongValue();
            return found <= most ? found : -1;
        }

        private byte[] invoice() throws IOException {
            buffer.reset();
            try (JsonGenerator out = JSON.createGenerator(buffer)) {
                out.writeStartObject();
                write(out, PURCHASE_ID, purchaseId);
                write(out, USER_ID, userId);
                write(out, PRODUCT_ID, productId);
                write(out, QUANTITY, quantity);
                out.writeFieldName(TOTAL_PRICE);
                out.writeNumber(totalPrice);
                out.writeEndObject();
            }
            return buffer.toByteArray();
        }

        private byte[] shipment() throws IOException {
            buffer.reset();
            try (JsonGenerator out = JSON.createGenerator(buffer)) {
                out.writeStartObject();
                out.writeFieldName(SHIPMENT_ID);
                out.writeString("S-" + purchaseId);
                write(out, PURCHASE_ID, purchaseId);
                write(out, PRODUCT_ID, productId);
                out.writeFieldName(USER_FULL_NAME);
                out.writeString(userFullName);
                out.writeFieldName(ADDRESS);
                out.writeString(address());
                write(out, QUANTITY, quantity);
                out.writeEndObject();
            }
            return buffer.toByteArray();
        }

        private static void write(JsonGenerator out, SerializableString name, long value) throws IOException {
            out.writeFieldName(name);
            out.writeNumber(value);
        }

        private String address() {
            long code = userId % 1000;
            String zeros = code < 10 ? "00" : code < 100 ? "0" : "";
            return "SomeStreet " + (userId % 97 + 1) + "/" + (userId % 18 + 1) + ", 00-" + zeros + code + " Warsaw";
        }

        private Record<byte[], byte[]> deadLetter(Record<byte[], byte[]> record, String reason) {
            RecordMetadata from = context.recordMetadata().orElseThrow();
            Headers headers = new RecordHeaders(record.headers());
            headers.add("error.reason", utf8(reason));
            headers.add("error.topic", utf8(from.topic()));
            headers.add("error.partition", utf8(Integer.toString(from.partition())));
            headers.add("error.offset", utf8(Long.toString(from.offset())));
            return new Record<>(record.key(), record.value(), record.timestamp(), headers);
        }

        private static byte[] utf8(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(args[0])) {
            properties.load(file);
        }

        ByteArrayDeserializer read = new ByteArrayDeserializer();
        ByteArraySerializer write = new ByteArraySerializer();
        Topology topology = new Topology()
            .addSource("purchases", read, read, args[1])
            .addProcessor("shop", Shop::new, "purchases")
            .addSink("invoices", args[2], write, write, "shop")
            .addSink("shipments", args[3], write, write, "shop")
            .addSink("dead letters", args[4], write, write, "shop");

        KafkaStreams streams = new KafkaStreams(topology, properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
