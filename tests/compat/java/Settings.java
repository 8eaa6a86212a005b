import java.util.Map;
import kafka.server.DynamicBrokerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints Kafka's settings, one per line: broker or topic, name, type, default, whether it can be altered live. */
public class Settings {
    public static void main(String[] arguments) {
        print("broker", AbstractKafkaConfig.CONFIG_DEF);
        print("topic", LogConfig.configDefCopy());
    }

    private static void print(String table, ConfigDef settings) {
        for (Map.Entry<String, ConfigDef.ConfigKey> entry : settings.configKeys().entrySet()) {
            ConfigDef.ConfigKey key = entry.getValue();
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "(required)";
            boolean live = table.equals("topic") || DynamicBrokerConfig.AllDynamicConfigs().contains(key.name);
            System.out.println(String.join("\t", table, key.name, key.type.name(), String.valueOf(value), live + ""));
        }
    }
}
