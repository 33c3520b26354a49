import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * W1, W3 and W6 on Kafka Streams with values in Avro, as generic records behind the five bytes of a
 * registry. What a registry's client would do besides, looking up an id that it knows, is left out.
 *
 * <p>Arguments: the workload, sink=, in=, auction=, and any setting of Streams.
 */
public final class StreamsAvro {
    private static final AtomicBoolean STARTED = new AtomicBoolean();
    private static final int PREFIX = 5;
    private static final Serde<String> TEXT = Serdes.String();
    private static final Schema BID =
            record("auction", "bidder", "price", "+channel", "+url", "dateTime", "+extra");
    private static final Schema AUCTION =
            record(
                    "id", "+itemName", "+description", "initialBid", "reserve", "dateTime", "expires",
                    "seller", "category", "+extra");
    private static final Schema PRICED = record("auction", "bidder", "#price", "dateTime", "+extra");
    private static final Schema COUNTED = record("count", "price");
    private static final Schema JOINED =
            record("auction", "bidder", "price", "dateTime", "+itemName", "seller", "category");

    /** A record of numbers, of texts (+) and of doubles (#), all of which may be null. */
    private static Schema record(String... names) {
        SchemaBuilder.FieldAssembler<Schema> fields = SchemaBuilder.record("r").fields();
        for (String name : names) {
            String kind = name.startsWith("+") ? "string" : name.startsWith("#") ? "double" : "long";
            Schema type = Schema.createUnion(Schema.create(Schema.Type.NULL),
                    Schema.create(Schema.Type.valueOf(kind.toUpperCase())));
            fields = fields.name(name.replaceAll("[+#]", "")).type(type).withDefault(null);
        }
        return fields.endRecord();
    }

    private static Serde<GenericRecord> serde(Schema schema) {
        ThreadLocal<BinaryDecoder> decoders = new ThreadLocal<>();
        ThreadLocal<BinaryEncoder> encoders = new ThreadLocal<>();
        ThreadLocal<GenericDatumReader<GenericRecord>> readers =
                ThreadLocal.withInitial(() -> new GenericDatumReader<>(schema));
        ThreadLocal<GenericDatumWriter<GenericRecord>> writers =
                ThreadLocal.withInitial(() -> new GenericDatumWriter<>(schema));
        return Serdes.serdeFrom(
                (topic, value) -> {
                    if (value == null) {
                        return null;
                    }
                    try {
                        ByteArrayOutputStream made = new ByteArrayOutputStream(200);
                        made.write(ByteBuffer.allocate(PREFIX).putInt(1, 1).array());
                        encoders.set(EncoderFactory.get().binaryEncoder(made, encoders.get()));
                        writers.get().write(value, encoders.get());
                        encoders.get().flush();
                        return made.toByteArray();
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                (topic, bytes) -> {
                    if (bytes == null) {
                        return null;
                    }
                    if (!STARTED.get() && STARTED.compareAndSet(false, true)) {
                        System.out.println("START " + System.currentTimeMillis());
                    }
                    try {
                        decoders.set(DecoderFactory.get().binaryDecoder(
                                bytes, PREFIX, bytes.length - PREFIX, decoders.get()));
                        return readers.get().read(null, decoders.get());
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                });
    }

    private static GenericRecord made(Schema schema, Object... values) {
        GenericRecord found = new GenericData.Record(schema);
        for (int place = 0; place < values.length; place++) {
            found.put(place, values[place]);
        }
        return found;
    }

    private static long number(GenericRecord record, String name) {
        return (Long) record.get(name);
    }

    private static GenericRecord counted(GenericRecord bid, GenericRecord before) {
        return made(COUNTED, number(before, "count") + 1,
                Math.max(number(before, "price"), number(bid, "price")));
    }

    private static GenericRecord joined(GenericRecord bid, GenericRecord auction) {
        return made(JOINED, bid.get("auction"), bid.get("bidder"), bid.get("price"),
                bid.get("dateTime"), auction.get("itemName"), auction.get("seller"),
                auction.get("category"));
    }

    private static void define(StreamsBuilder builder, String workload, Properties own) {
        Serde<GenericRecord> bids = serde(BID);
        String sink = own.getProperty("sink");
        KStream<String, GenericRecord> bid =
                builder.stream(own.getProperty("in"), Consumed.with(TEXT, bids));
        switch (workload) {
            case "W1":
                bid.mapValues(v -> made(PRICED, v.get("auction"), v.get("bidder"),
                                number(v, "price") * 0.908, v.get("dateTime"), v.get("extra")))
                        .to(sink, Produced.with(TEXT, serde(PRICED)));
                break;
            case "W3":
                bid.groupBy((k, v) -> Long.toString(number(v, "auction")), Grouped.with(TEXT, bids))
                        .aggregate(() -> made(COUNTED, 0L, 0L), (k, v, x) -> counted(v, x),
                                Materialized.with(TEXT, serde(COUNTED)))
                        .toStream().to(sink, Produced.with(TEXT, serde(COUNTED)));
                break;
            case "W6":
                KTable<String, GenericRecord> auction =
                        builder.table(own.getProperty("auction"), Consumed.with(TEXT, serde(AUCTION)));
                bid.selectKey((k, v) -> Long.toString(number(v, "auction")))
                        .join(auction, StreamsAvro::joined, Joined.with(TEXT, bids, serde(AUCTION)))
                        .to(sink, Produced.with(TEXT, serde(JOINED)));
                break;
            default:
                throw new IllegalArgumentException(workload);
        }
    }

    public static void main(String[] arguments) {
        Properties own = new Properties();
        Properties settings = new Properties();
        settings.put("num.stream.threads", "2");
        settings.put("auto.offset.reset", "earliest");
        settings.put("replication.factor", "1");
        settings.put("topology.optimization", "all");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        for (int place = 1; place < arguments.length; place++) {
            String[] pair = arguments[place].split("=", 2);
            boolean ours = pair[0].equals("sink") || pair[0].equals("in") || pair[0].equals("auction");
            (ours ? own : settings).put(pair[0], pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        define(builder, arguments[0], own);
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        Runtime.getRuntime().addShutdownHook(
                new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }
}
